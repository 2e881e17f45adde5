package tfprov.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;

/** Reads the records of one split, for both of Hadoop's interfaces. */
final class SplitReader implements Closeable {
  static final String CHECKSUMS = "tensorflow.read.crc32check";

  private final FSDataInputStream raw;
  private final RecordInput records;
  private final boolean compressed;
  private final long start;
  private final long end;

  SplitReader(Configuration conf, Path file, long start, long length) throws IOException {
    FileSystem files = file.getFileSystem(conf);
    CompressionCodec codec = codecOf(conf, file);
    long size = files.getFileStatus(file).getLen();
    this.compressed = codec != null;
    boolean whole = compressed || (start == 0 && length >= size);
    RecordIndex index = whole ? null : RecordIndex.of(files, file);
    if (!whole && index == null) {
      throw new IOException(file + ": the record index was removed or changed while the job ran; run the job again");
    }
    this.start = whole ? 0 : index.recordAt(start);
    this.end = whole ? size : index.recordAt(start + length);
    this.raw = files.open(file);
    raw.seek(this.start);
    InputStream stream = compressed ? codec.createInputStream(raw) : new java.io.BufferedInputStream(raw, 1 << 16);
    this.records = new RecordInput(stream, file.toString(), this.start, conf.getBoolean(CHECKSUMS, true));
  }

  static CompressionCodec codecOf(Configuration conf, Path file) {
    return new CompressionCodecFactory(conf).getCodec(file);
  }

  /** Whether a file can be read by several tasks: it is not compressed, and has an index of its records. */
  static boolean isSplitable(Configuration conf, Path file) {
    try {
      return codecOf(conf, file) == null && RecordIndex.of(file.getFileSystem(conf), file) != null;
    } catch (IOException unreadable) {
      return false; // the task that reads the file reports it
    }
  }

  boolean next(BytesWritable record) throws IOException {
    if (!compressed && records.position() >= end) {
      return false;
    }
    return records.next(record);
  }

  long position() throws IOException {
    return compressed ? raw.getPos() : records.position();
  }

  float progress() throws IOException {
    return end == start ? 1 : Math.min(1, (position() - start) / (float) (end - start));
  }

  @Override
  public void close() throws IOException {
    records.close();
  }
}
