package tfprov.hadoop;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.GzipCodec;
import org.apache.hadoop.mapred.FileOutputFormat;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordWriter;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.util.Progressable;
import org.apache.hadoop.util.ReflectionUtils;

/** {@link TFRecordFileOutputFormat} for Hadoop's older interface, {@code org.apache.hadoop.mapred}. */
public class TFRecordFileOutputFormatV1 extends FileOutputFormat<BytesWritable, NullWritable> {

  @Override
  public RecordWriter<BytesWritable, NullWritable> getRecordWriter(
      FileSystem ignored, JobConf job, String name, Progressable progress) throws IOException {
    CompressionCodec codec =
        getCompressOutput(job)
            ? ReflectionUtils.newInstance(getOutputCompressorClass(job, GzipCodec.class), job)
            : null;
    String extension = TFRecordFileOutputFormat.EXTENSION + (codec == null ? "" : codec.getDefaultExtension());
    Path file = getTaskOutputPath(job, name + extension);
    OutputStream raw = file.getFileSystem(job).create(file, progress);
    return new Writer(new RecordOutput(codec == null ? raw : codec.createOutputStream(raw)));
  }

  private static final class Writer implements RecordWriter<BytesWritable, NullWritable> {
    private final RecordOutput records;

    Writer(RecordOutput records) {
      this.records = records;
    }

    @Override
    public void write(BytesWritable key, NullWritable value) throws IOException {
      records.write(key);
    }

    @Override
    public void close(Reporter reporter) throws IOException {
      records.close();
    }
  }
}
