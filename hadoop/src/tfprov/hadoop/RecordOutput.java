package tfprov.hadoop;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.hadoop.io.BytesWritable;

/** Writes records with both checksums. */
final class RecordOutput implements Closeable {
  private final OutputStream stream;
  private final MaskedCrc crc = new MaskedCrc();
  private final byte[] head = new byte[RecordInput.HEADER];
  private final byte[] foot = new byte[RecordInput.FOOTER];

  RecordOutput(OutputStream stream) {
    this.stream = new BufferedOutputStream(stream, 1 << 16);
  }

  void write(BytesWritable record) throws IOException {
    byte[] data = record.getBytes();
    int length = record.getLength();
    ByteBuffer fields = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN);
    fields.putLong(0, length).putInt(8, crc.of(head, 0, 8));
    ByteBuffer.wrap(foot).order(ByteOrder.LITTLE_ENDIAN).putInt(0, crc.of(data, 0, length));
    stream.write(head);
    stream.write(data, 0, length);
    stream.write(foot);
  }

  @Override
  public void close() throws IOException {
    stream.close();
  }
}
