package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

const installMariaDB = "apt-get install mariadb-server"

// mariadb prepares a MariaDB with empty databases "stock" and "orders" and a root without a password, which only
// 127.0.0.1 can reach.
func (s *Stack) mariadb(ctx context.Context, name, dir string, port int) (*Server, error) {
	cmd, err := s.mariadbCommand(ctx, name, dir, port)
	if err != nil {
		return nil, err
	}
	return &Server{
		Log:    cmd.Log,
		URL:    "root@tcp(" + Local(port) + ")/stock",
		Launch: func() (Run, error) { return cmd.Start(syscall.SIGKILL) },
		Ready:  func(ctx context.Context, _ int) error { return MariaDBReady(ctx, Local(port), dir) },
	}, nil
}

// mariadbCommand makes the system tables in dir/data, and returns the command that serves them on port.
func (s *Stack) mariadbCommand(ctx context.Context, name, dir string, port int) (cmd Command, err error) {
	program, err := Find(installMariaDB, "mariadbd", "mysqld")
	if err != nil {
		return cmd, err
	}
	install, err := Find(installMariaDB, "mariadb-install-db", "mysql_install_db")
	if err != nil {
		return cmd, err
	}
	common := []string{
		"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--tmpdir=" + dir,
		"--innodb-log-file-size=16M", "--skip-log-bin", "--skip-name-resolve",
	}
	if os.Geteuid() == 0 {
		common = append(common, "--user=root") // otherwise it refuses to run as root
	}
	cmd = Command{Path: install, Dir: s.Dir, Log: filepath.Join(s.Dir, name+".log")}
	cmd.Args = append(common, "--auth-root-authentication-method=normal", "--skip-test-db",
		"--innodb-flush-log-at-trx-commit=0")
	if err := initialise(ctx, cmd, dir, program); err != nil {
		return cmd, err
	}
	cmd.Path = program
	cmd.Args = append(common[:len(common):len(common)],
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(port), "--skip-networking=0",
		// Relative to the data folder: an absolute name may exceed the 100 bytes or so that a socket's name can have.
		"--socket=mysql.sock", "--pid-file=mysql.pid",
		"--max-connections=400", "--innodb-buffer-pool-size=64M", "--key-buffer-size=1M", "--performance-schema=OFF",
		"--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF",
		"--character-set-server=utf8mb4",
		// A commit is written to the operating system at once and synced once a second. A killed server loses no
		// commit; a computer that loses power loses up to a second of them. A real shop uses 1, and its commits are
		// slower.
		"--innodb-flush-log-at-trx-commit=2",
	)
	cmd.Args = append(cmd.Args, s.options.More[MySQL]...)
	return cmd, nil
}

// initialise makes the system tables in dir/data, unless the file dir/initialised says that they exist. Making them
// takes 1.6 s of CPU time, and copying them 0.1 s, so the first call for a build of the program leaves a copy of 30 MB
// in the user's cache folder (~/.cache/stock on Linux) for later ones. Without such a folder every call makes them.
func initialise(ctx context.Context, cmd Command, dir, program string) error {
	mark, data := filepath.Join(dir, "initialised"), filepath.Join(dir, "data")
	if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	kept := keptTables(program)
	if kept == "" || os.CopyFS(data, os.DirFS(kept)) != nil {
		if err := errors.Join(os.RemoveAll(data), cmd.Finish(ctx)); err != nil {
			return err
		}
		if kept != "" {
			keepTables(kept, data)
		}
	}
	return os.WriteFile(mark, nil, 0o600)
}

// keptTables names the folder for a copy of the system tables that this build of the program makes for this user, or
// returns "" if there is no cache folder.
func keptTables(program string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	info, err := os.Stat(program)
	if err != nil {
		return ""
	}
	build := fmt.Sprintf("mariadb-%d-%d-%d", info.Size(), info.ModTime().Unix(), os.Geteuid())
	return filepath.Join(cache, "stock", build)
}

// keepTables copies data to the folder kept, atomically. It ignores errors, because without a copy the next call of
// initialise only takes longer.
func keepTables(kept, data string) {
	if os.MkdirAll(filepath.Dir(kept), 0o700) != nil {
		return
	}
	part, err := os.MkdirTemp(filepath.Dir(kept), "part-")
	if err != nil {
		return
	}
	defer os.RemoveAll(part)
	if os.CopyFS(filepath.Join(part, "data"), os.DirFS(data)) == nil {
		_ = os.Rename(filepath.Join(part, "data"), kept)
	}
}

// MariaDBReady asks for the served data folder, to tell our server from another one on the port, and creates the
// databases of the demonstration and of the order service, if they are missing.
func MariaDBReady(ctx context.Context, addr, dir string) error {
	db, err := OpenMariaDB(addr)
	if err != nil {
		return err
	}
	defer db.Close()
	var data string
	if err := db.QueryRowContext(ctx, "SELECT @@datadir").Scan(&data); err != nil {
		return err
	}
	if !strings.HasPrefix(data, dir) {
		return fmt.Errorf("%s serves %s, expected %s", addr, data, dir)
	}
	for _, name := range []string{"stock", "orders"} {
		if _, err := db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+name); err != nil {
			return err
		}
	}
	return nil
}

// OpenMariaDB opens a MariaDB of a stack as root.
func OpenMariaDB(addr string) (*sql.DB, error) {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.Logger = "root", "tcp", addr, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
