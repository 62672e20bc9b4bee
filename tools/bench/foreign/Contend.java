import java.io.*;
import java.net.Socket;
import java.util.*;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** A worker with Curator's lock: Contend way redis zookeeper cell keys contenders warm_ms run_ms. It speaks as worker.go does. */
public class Contend {
    static String[] args;
    static CuratorFramework client;

    /** A connection to Redis that knows GET and SET. */
    static class Redis implements Closeable {
        final Socket socket;
        final BufferedInputStream in;
        final OutputStream out;

        Redis(String address) throws IOException {
            int colon = address.lastIndexOf(':');
            socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream());
            out = socket.getOutputStream();
        }

        String call(String... words) throws IOException {
            StringBuilder request = new StringBuilder("*" + words.length + "\r\n");
            for (String word : words) {
                request.append('$').append(word.length()).append("\r\n").append(word).append("\r\n");
            }
            out.write(request.toString().getBytes());
            String head = line();
            switch (head.charAt(0)) {
                case '+':
                    return head.substring(1);
                case '$':
                    return head.equals("$-1") ? null : line();
                default:
                    throw new IOException("redis: " + head);
            }
        }

        String line() throws IOException {
            StringBuilder line = new StringBuilder();
            for (int c = in.read(); c != '\r'; c = in.read()) {
                if (c < 0) {
                    throw new EOFException();
                }
                line.append((char) c);
            }
            in.read();
            return line.toString();
        }

        public void close() throws IOException {
            socket.close();
        }
    }

    static class Contender extends Thread {
        final long deadline;
        final int keys;
        final AtomicLong late, failed;
        long done;
        final List<Long> micros = new ArrayList<>();
        String error;

        Contender(long deadline, int keys, AtomicLong late, AtomicLong failed) {
            this.deadline = deadline;
            this.keys = keys;
            this.late = late;
            this.failed = failed;
        }

        public void run() {
            Map<String, InterProcessMutex> mutexes = new HashMap<>();
            try (Redis redis = new Redis(args[1])) {
                while (System.nanoTime() < deadline) {
                    String key = keys == 0 ? args[3] + "-warm" : args[3] + "-" + ThreadLocalRandom.current().nextInt(keys);
                    InterProcessMutex mutex = mutexes.computeIfAbsent(key, k -> new InterProcessMutex(client, "/bench/" + k));
                    long began = System.nanoTime();
                    while (true) {
                        try {
                            mutex.acquire();
                            break;
                        } catch (Exception e) {
                            error = e.toString();
                            failed.incrementAndGet();
                        }
                    }
                    try {
                        String n = redis.call("GET", "count:" + key);
                        redis.call("SET", "count:" + key, Long.toString(n == null ? 1 : Long.parseLong(n) + 1));
                    } finally {
                        mutex.release();
                    }
                    long ended = System.nanoTime();
                    micros.add((ended - began) / 1000);
                    if (ended < deadline) {
                        done++;
                    } else {
                        late.incrementAndGet();
                    }
                }
            } catch (Exception e) {
                error = e.toString();
                failed.incrementAndGet();
            }
        }
    }

    static String contend(int keys, long millis) throws Exception {
        AtomicLong late = new AtomicLong(), failed = new AtomicLong();
        long deadline = System.nanoTime() + millis * 1_000_000;
        List<Contender> all = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[5]); i++) {
            Contender c = new Contender(deadline, keys, late, failed);
            all.add(c);
            c.start();
        }
        List<Long> done = new ArrayList<>(), micros = new ArrayList<>();
        String error = "";
        for (Contender c : all) {
            c.join();
            done.add(c.done);
            micros.addAll(c.micros);
            error = c.error == null ? error : c.error.replaceAll("[^ -~]|[\"\\\\]", "'");
        }
        return String.format("{\"done\":%s,\"late\":%d,\"failed\":%d,\"error\":\"%s\",\"micros\":%s}", done, late.get(), failed.get(), error, micros);
    }

    public static void main(String[] given) throws Exception {
        args = given;
        client = CuratorFrameworkFactory.newClient(args[2], new ExponentialBackoffRetry(100, 5));
        client.start();
        contend(0, Long.parseLong(args[6]));
        System.out.println("ready");
        if (System.in.read() < 0) {
            return;
        }
        Thread parent = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                }
            } catch (IOException e) {
                // the same
            }
            Runtime.getRuntime().halt(1);
        });
        parent.setDaemon(true);
        parent.start();
        System.out.println(contend(Integer.parseInt(args[4]), Long.parseLong(args[7])));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
