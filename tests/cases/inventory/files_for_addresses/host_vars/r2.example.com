a: no extension but dots
