"""A file of this machine that knows where its holes are."""

import errno
import io
import os


class SparseFile(io.FileIO):
    """A file that is open for reading, without a buffer: its place is that of the kernel. See Sparse."""

    def hole(self) -> int:
        """See Sparse. A file system that keeps no holes has none."""
        here = self.tell()
        try:
            data = os.lseek(self.fileno(), here, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return 0
            data = os.fstat(self.fileno()).st_size  # nothing but a hole up to the end
        self.seek(here)
        return max(0, data - here)
