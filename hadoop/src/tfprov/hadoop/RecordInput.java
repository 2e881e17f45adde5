package tfprov.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.hadoop.io.BytesWritable;

/**
 * Reads the records of one stream. A file that ends anywhere but between two records is an error, and so is a wrong
 * checksum. Memory grows with the bytes that arrive, not with the length that a header claims.
 */
final class RecordInput implements Closeable {
  static final int HEADER = 12;
  static final int FOOTER = 4;
  private static final int STEP = 1 << 20;
  private static final long LARGEST = Integer.MAX_VALUE - 16;

  private final InputStream stream;
  private final String file;
  private final boolean checksums;
  private final boolean fromStart;
  private final MaskedCrc crc = new MaskedCrc();
  private final byte[] head = new byte[HEADER];
  private final ByteBuffer fields = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN);
  private byte[] data = new byte[0];
  private long offset;
  private long records;

  /** Reads {@code stream}, which is at byte {@code offset} of the uncompressed file. */
  RecordInput(InputStream stream, String file, long offset, boolean checksums) {
    this.stream = stream;
    this.file = file;
    this.offset = offset;
    this.checksums = checksums;
    this.fromStart = offset == 0;
  }

  /** The place of the next record in the uncompressed file. */
  long position() {
    return offset;
  }

  /** Puts the next record into {@code record}; false at the end. */
  boolean next(BytesWritable record) throws IOException {
    int read = fill(head, 0, HEADER);
    if (read == 0) {
      return false;
    }
    if (read < HEADER) {
      throw damage("the file ends in the header of the record");
    }
    int length = length();
    readBody(length + FOOTER);
    int expected = ByteBuffer.wrap(data, length, FOOTER).order(ByteOrder.LITTLE_ENDIAN).getInt();
    if (checksums && crc.of(data, 0, length) != expected) {
      throw damage("the data does not match its checksum");
    }
    record.set(data, 0, length);
    offset += HEADER + (long) length + FOOTER;
    records++;
    return true;
  }

  private int length() throws IOException {
    long length = fields.getLong(0);
    if (checksums && crc.of(head, 0, 8) != fields.getInt(8)) {
      throw damage("the length does not match its checksum");
    }
    if (length < 0 || length > LARGEST) {
      throw damage("its length is " + Long.toUnsignedString(length) + " bytes, and the maximum is " + LARGEST);
    }
    return (int) length;
  }

  private void readBody(int size) throws IOException {
    int read = 0;
    while (read < size) {
      int wanted = (int) Math.min(size, (long) read + STEP);
      if (data.length < wanted) {
        data = Arrays.copyOf(data, (int) Math.min(size, Math.max(wanted, 2L * data.length)));
      }
      int more = fill(data, read, wanted - read);
      read += more;
      if (read < wanted) {
        throw damage("the file ends in the data of the record");
      }
    }
  }

  private int fill(byte[] target, int start, int size) throws IOException {
    int read = 0;
    while (read < size) {
      int more = stream.read(target, start + read, size - read);
      if (more < 0) {
        break;
      }
      read += more;
    }
    return read;
  }

  private IOException damage(String what) {
    String number = fromStart ? "record " + records + " " : ""; // in a later split, only the place is known
    return new IOException(file + ": " + number + "at byte " + offset + ": " + what);
  }

  @Override
  public void close() throws IOException {
    stream.close();
  }
}
