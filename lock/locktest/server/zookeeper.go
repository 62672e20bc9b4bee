package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const installZooKeeper = "apt-get install zookeeper"

// zookeeper prepares a standalone ZooKeeper in a small JVM. It does not use ZooKeeper's scripts, which differ between
// distributions and leave a shell between this process and the server.
func (s *Stack) zookeeper(_ context.Context, name, dir string, port int) (*Server, error) {
	const alone = "org.apache.zookeeper.server.ZooKeeperServerMain"
	return s.zookeeperServer(name, dir, port, alone, zookeeperConfig(filepath.Join(dir, "data"), port))
}

// zookeeperServer prepares a server that runs a main class of ZooKeeper with a configuration.
func (s *Stack) zookeeperServer(name, dir string, port int, class string, lines []byte) (*Server, error) {
	java, err := Find(installZooKeeper, "java") // Debian's package depends on a Java
	if err != nil {
		return nil, fmt.Errorf("ZooKeeper needs Java: %w", err)
	}
	jars, err := zookeeperJars()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "zoo.cfg")
	for _, line := range s.options.More[ZooKeeper] {
		lines = append(lines, line+"\n"...)
	}
	if err := os.WriteFile(config, lines, 0o600); err != nil {
		return nil, err
	}
	cmd := Command{Path: java, Dir: s.Dir, Log: filepath.Join(s.Dir, name+".log"), Args: []string{
		// Quick to start, and small. The second compiler pays off only in long runs.
		"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-XX:-UsePerfData", "-Djava.io.tmpdir=" + dir, // otherwise it leaves files outside the folder
		"-Djava.net.preferIPv4Stack=true",
		"-cp", strings.Join(jars, string(os.PathListSeparator)),
		class, config,
	}}
	return &Server{
		Log:    cmd.Log,
		Launch: func() (Run, error) { return cmd.Start(syscall.SIGKILL) },
		Ready:  func(ctx context.Context, _ int) error { return zookeeperReady(ctx, Local(port), dir) },
	}, nil
}

// zookeeperTick is the unit of ZooKeeper's limits.
const zookeeperTick = 500 * time.Millisecond

// zookeeperConfig returns the configuration. A tick of 0.5 s allows sessions of 1 s, so a crash is noticed soon. The
// log is written before the reply leaves but not synced: a killed server loses nothing, a computer that loses power
// may.
func zookeeperConfig(data string, port int) []byte {
	return fmt.Appendf(nil, `dataDir=%s
clientPort=%d
clientPortAddress=127.0.0.1
tickTime=%d
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
extendedTypesEnabled=true
forceSync=no
preAllocSize=1024
`, data, port, zookeeperTick.Milliseconds())
}

// zookeeperReady asks for the configuration, which a server returns only when it serves. The data folder in it tells
// our server from another one on the port.
func zookeeperReady(ctx context.Context, addr, dir string) error {
	reply, err := ZooKeeperWord(ctx, addr, "conf")
	if err == nil && !strings.Contains(reply, "dataDir="+dir) {
		err = fmt.Errorf("conf answered %.80q, expected dataDir=%s", reply, dir)
	}
	return err
}

// ZooKeeperWord sends one of ZooKeeper's four-letter words, and returns the reply, of which it reads at most 1 MiB.
func ZooKeeperWord(ctx context.Context, addr, word string) (string, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	reply, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if err != nil {
		return "", fmt.Errorf("%s: %w", word, err)
	}
	return string(reply), nil
}

// zookeeperJars looks for the jars in $ZOOKEEPER_HOME, beside a zkServer on PATH, and in the folders of Homebrew and
// Debian.
func zookeeperJars() ([]string, error) {
	homes := []string{os.Getenv("ZOOKEEPER_HOME")}
	if script, err := Find(installZooKeeper, "zkServer.sh", "zkServer"); err == nil {
		if real, err := filepath.EvalSymlinks(script); err == nil {
			homes = append(homes, filepath.Dir(filepath.Dir(real)))
		}
	}
	homes = append(homes, "/opt/homebrew/opt/zookeeper/libexec", "/usr/local/opt/zookeeper/libexec")
	for _, home := range homes {
		if home == "" {
			continue
		}
		for _, lib := range []string{filepath.Join(home, "lib"), home} {
			if found, _ := filepath.Glob(filepath.Join(lib, "zookeeper-[0-9]*.jar")); len(found) > 0 {
				more, _ := filepath.Glob(filepath.Join(home, "lib", "*.jar"))
				return append(found, more...), nil
			}
		}
	}
	const debian = "/usr/share/java"
	if jar := filepath.Join(debian, "zookeeper.jar"); isFile(jar) {
		jars := []string{jar}
		for _, name := range []string{ // the last three are for TLS; the jar's manifest has the others
			"slf4j-simple", "netty-codec", "netty-resolver", "netty-transport-native-unix-common",
		} {
			jars = append(jars, filepath.Join(debian, name+".jar"))
		}
		return jars, nil
	}
	return nil, &MissingError{
		"ZooKeeper (its jars in $ZOOKEEPER_HOME or /usr/share/java, or zkServer.sh)", installZooKeeper,
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
