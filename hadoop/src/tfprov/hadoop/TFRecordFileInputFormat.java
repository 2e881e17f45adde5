package tfprov.hadoop;

import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/**
 * TFRecord files: each record is a key, without a value. The codec is that of the extension. Both checksums are verified
 * unless {@code tensorflow.read.crc32check} is false. An uncompressed file with an index of its records is split.
 */
public class TFRecordFileInputFormat extends FileInputFormat<BytesWritable, NullWritable> {

  @Override
  protected boolean isSplitable(JobContext context, Path file) {
    return SplitReader.isSplitable(context.getConfiguration(), file);
  }

  @Override
  public RecordReader<BytesWritable, NullWritable> createRecordReader(InputSplit split, TaskAttemptContext context) {
    return new Reader();
  }

  private static final class Reader extends RecordReader<BytesWritable, NullWritable> {
    private final BytesWritable record = new BytesWritable();
    private SplitReader records;

    @Override
    public void initialize(InputSplit split, TaskAttemptContext context) throws IOException {
      FileSplit part = (FileSplit) split;
      records = new SplitReader(context.getConfiguration(), part.getPath(), part.getStart(), part.getLength());
    }

    @Override
    public boolean nextKeyValue() throws IOException {
      return records.next(record);
    }

    @Override
    public BytesWritable getCurrentKey() {
      return record;
    }

    @Override
    public NullWritable getCurrentValue() {
      return NullWritable.get();
    }

    @Override
    public float getProgress() throws IOException {
      return records.progress();
    }

    @Override
    public void close() throws IOException {
      if (records != null) {
        records.close();
      }
    }
  }
}
