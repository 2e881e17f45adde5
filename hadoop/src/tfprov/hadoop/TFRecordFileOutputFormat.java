package tfprov.hadoop;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.GzipCodec;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * TFRecord files: each key is a record. With {@code setCompressOutput}, the codec is that of the job; Hadoop's own default
 * is zlib, with the extension {@code .deflate}.
 */
public class TFRecordFileOutputFormat extends FileOutputFormat<BytesWritable, NullWritable> {
  static final String EXTENSION = ".tfrecord";

  @Override
  public RecordWriter<BytesWritable, NullWritable> getRecordWriter(TaskAttemptContext context) throws IOException {
    Configuration conf = context.getConfiguration();
    CompressionCodec codec =
        getCompressOutput(context)
            ? ReflectionUtils.newInstance(getOutputCompressorClass(context, GzipCodec.class), conf)
            : null;
    Path file = getDefaultWorkFile(context, EXTENSION + (codec == null ? "" : codec.getDefaultExtension()));
    OutputStream raw = file.getFileSystem(conf).create(file, false);
    return new Writer(new RecordOutput(codec == null ? raw : codec.createOutputStream(raw)));
  }

  private static final class Writer extends RecordWriter<BytesWritable, NullWritable> {
    private final RecordOutput records;

    Writer(RecordOutput records) {
      this.records = records;
    }

    @Override
    public void write(BytesWritable key, NullWritable value) throws IOException {
      records.write(key);
    }

    @Override
    public void close(TaskAttemptContext context) throws IOException {
      records.close();
    }
  }
}
