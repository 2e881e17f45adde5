"""Keras on one machine: ModelCheckpoint writes .weights.h5 files below the working directory."""

import numpy as np
import tensorflow as tf

x = np.random.default_rng(0).random((32, 4), dtype=np.float32)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
callback = tf.keras.callbacks.ModelCheckpoint("snapshots/epoch-{epoch}.weights.h5", save_weights_only=True)
model.fit(x, x.sum(axis=1), epochs=2, verbose=2, callbacks=[callback])
model.save("snapshots/final.keras")
print("saved final.keras")
