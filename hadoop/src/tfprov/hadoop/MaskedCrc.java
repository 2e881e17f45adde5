package tfprov.hadoop;

import java.util.zip.CRC32C;

/** The masked CRC-32C of TFRecord files: rotated right by 15 bits, with a constant added. */
final class MaskedCrc {
  private static final int DELTA = 0xA282EAD8;

  private final CRC32C crc = new CRC32C();

  int of(byte[] data, int offset, int length) {
    crc.reset();
    crc.update(data, offset, length);
    return Integer.rotateRight((int) crc.getValue(), 15) + DELTA;
  }
}
