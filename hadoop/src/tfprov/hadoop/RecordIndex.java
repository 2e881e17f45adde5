package tfprov.hadoop;

import java.io.BufferedReader;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Where records begin, by which an uncompressed file is split: {@code _NAME.idx} beside the file {@code NAME}, a line
 * {@code OFFSET SIZE} for some of its records, the first and the last among them. {@code tfprov records index} writes it.
 */
final class RecordIndex {
  private final long[] offsets;
  private final long length;

  private RecordIndex(long[] offsets, long length) {
    this.offsets = offsets;
    this.length = length;
  }

  static Path pathOf(Path file) {
    return new Path(file.getParent(), "_" + file.getName() + ".idx");
  }

  /** Returns the index of a file, or null where there is none, or one of another version of the file. */
  static RecordIndex of(FileSystem files, Path file) throws IOException {
    long length = files.getFileStatus(file).getLen();
    long[] offsets = new long[1024];
    int count = 0;
    long end = 0;
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(files.open(pathOf(file)), StandardCharsets.US_ASCII))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] words = line.trim().split(" ");
        long offset = Long.parseLong(words[0]);
        if (words.length != 2 || offset < end || (count == 0 && offset != 0)) {
          return null;
        }
        if (count == offsets.length) {
          offsets = Arrays.copyOf(offsets, 2 * count);
        }
        offsets[count++] = offset;
        end = offset + Long.parseLong(words[1]);
      }
    } catch (FileNotFoundException | NumberFormatException missing) {
      return null;
    }
    return count > 0 && end == length ? new RecordIndex(Arrays.copyOf(offsets, count), length) : null;
  }

  /** Returns the first indexed record at or behind a byte, or the end of the file. */
  long recordAt(long offset) {
    int place = Arrays.binarySearch(offsets, offset);
    int first = place >= 0 ? place : -place - 1;
    return first < offsets.length ? offsets[first] : length;
  }
}
