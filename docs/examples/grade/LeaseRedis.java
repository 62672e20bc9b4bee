// lease-redis.sh in Java, a lock to start from. It needs no library:
// javac -d out LeaseRedis.java && stock lab grade -- java -Xmx32m -cp out LeaseRedis
// A hundred JVMs need much memory; with --waiters 20 there are fewer.
import java.io.*;
import java.net.Socket;
import java.util.UUID;

public class LeaseRedis {
    static final String UNLOCK =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    static Socket socket;

    // redis sends one command, and returns the first line of its reply.
    static String redis(String... words) throws IOException {
        try {
            if (socket == null) {
                socket = new Socket(System.getenv("REDIS_HOST"), Integer.parseInt(System.getenv("REDIS_PORT")));
            }
            StringBuilder command = new StringBuilder("*" + words.length + "\r\n");
            for (String word : words) {
                command.append("$" + word.length() + "\r\n" + word + "\r\n");
            }
            socket.getOutputStream().write(command.toString().getBytes("UTF-8"));
            StringBuilder line = new StringBuilder();
            for (int c; (c = socket.getInputStream().read()) != '\n'; line.append((char) c)) {
                if (c < 0) {
                    throw new EOFException("the connection is lost");
                }
            }
            return line.toString().trim();
        } catch (IOException e) {
            socket = null;
            throw e;
        }
    }

    static String acquire(String key, long wait) throws Exception {
        String token = UUID.randomUUID().toString();
        long deadline = System.nanoTime() + wait * 1_000_000;
        while (!redis("SET", key, token, "NX", "PX", System.getenv("LEASE_MS")).equals("+OK")) {
            if (System.nanoTime() >= deadline) {
                return "busy";
            }
            Thread.sleep(20);
        }
        return "ok " + token;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = requests.readLine()) != null; ) {
            String[] request = line.split(" ");
            try {
                if (request[0].equals("acquire")) {
                    System.out.println(acquire(request[1], Long.parseLong(request[2])));
                } else {
                    redis("EVAL", UNLOCK, "1", request[1], request[2]);
                    System.out.println("ok");
                }
            } catch (IOException e) {
                System.out.println("error " + e.getMessage());
            }
        }
    }
}
