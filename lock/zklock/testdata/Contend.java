import java.nio.file.*;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** Adds to the number in a file, without any other protection than Curator's lock: Contend hosts path file threads rounds. */
public class Contend {
    public static void main(String[] args) throws Exception {
        Path file = Paths.get(args[2]);
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new RetryOneTime(100))) {
            client.start();
            Thread[] threads = new Thread[Integer.parseInt(args[3])];
            for (int i = 0; i < threads.length; i++) {
                threads[i] = new Thread(() -> {
                    InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
                    for (int round = 0; round < Integer.parseInt(args[4]); round++) {
                        try {
                            mutex.acquire();
                            try {
                                int n = Integer.parseInt(new String(Files.readAllBytes(file)));
                                Thread.sleep(1);
                                Files.write(file, Integer.toString(n + 1).getBytes());
                            } finally {
                                mutex.release();
                            }
                        } catch (Exception e) {
                            e.printStackTrace();
                            System.exit(1);
                        }
                    }
                });
                threads[i].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
    }
}
