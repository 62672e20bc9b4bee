package repo_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// semisync starts a MariaDB whose commits wait for a replica that is not there, once that is switched on, and returns
// its DSN.
func semisync(t *testing.T) string {
	t.Helper()
	server, missing := exec.LookPath("mariadbd")
	install, also := exec.LookPath("mariadb-install-db")
	if err := errors.Join(missing, also); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	common := []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--innodb-log-file-size=16M"}
	if os.Geteuid() == 0 {
		common = append(common, "--user=root")
	}
	prepare := exec.CommandContext(t.Context(), install,
		append(common, "--auth-root-authentication-method=normal", "--skip-test-db")...)
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	free.Close()
	cmd := exec.Command(server, append(common, "--bind-address=127.0.0.1", "--port="+port,
		"--socket="+filepath.Join(dir, "s"),
		"--pid-file="+filepath.Join(dir, "p"), "--log-bin="+filepath.Join(dir, "bin"), "--server-id=1",
		"--innodb-flush-log-at-trx-commit=2", "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
		"--skip-name-resolve", "--innodb-buffer-pool-size=64M")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	admin, err := sql.Open("mysql", "root@tcp("+addr+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		if _, err = admin.ExecContext(t.Context(), "CREATE DATABASE IF NOT EXISTS stock"); err == nil {
			return "root@tcp(" + addr + ")/stock"
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// A COMMIT that is in the binary log and waits for a replica: nobody sees the order, whose client was told that the
// outcome is unknown, and it will be there. Nobody is told that it is absent.
func TestSettleWaitsForTheReplica(t *testing.T) {
	dsn := semisync(t)
	db := migrated(t, dsn)
	s := repo.NewMySQL(db)
	const sku = service.SKU("semisync")
	o := numbered(mustSet(t, s, sku, 100))
	for _, statement := range []string{
		"SET GLOBAL rpl_semi_sync_master_timeout = 5000", "SET GLOBAL rpl_semi_sync_master_enabled = 1",
	} {
		if err := db.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.Write(ctx, o); !errors.Is(err, service.ErrOutcomeUnknown) {
		t.Fatalf("the write: %v, want ErrOutcomeUnknown", err)
	}
	if seen := len(allOrders(t, s, sku)); seen != 0 {
		t.Fatalf("%d orders are seen: this proves nothing", seen)
	}
	if _, written, err := s.Settle(short(t), sku, o.ID); !errors.Is(err, service.ErrUndecided) {
		t.Errorf("while it waits for the replica: written %v, %v; want ErrUndecided", written, err)
	}
	wantWritten(t, s, o) // when the server has given up waiting
	balanced(t, s, sku, 1)
}
