package mysqllock

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/repo"
)

// helperEnv makes the test binary a process that takes a lock and keeps it: "kind|lease|dsn".
const helperEnv = "MYSQLLOCK_TEST_HOLDER"

// helper holds a key until it is killed. It says what its fence is, and if it comes to that, that it has lost the
// lease.
func helper() int {
	part := strings.SplitN(os.Getenv(helperEnv), "|", 3)
	lease, err := time.ParseDuration(part[1])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	g, err := repo.OpenMySQL(part[2], repo.Pool{Open: 12})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	db, _ := g.DB()
	for _, k := range append(all, noExpiry) {
		if k.name != part[0] {
			continue
		}
		held, err := k.make(db, lease).Acquire(context.Background(), "k", lock.Options{})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("fence", held.Fence())
		<-held.Done()
		fmt.Println("lost", held.Err())
	}
	return 0
}

// A holderProcess is another process, which holds a key.
type holderProcess struct {
	cmd    *exec.Cmd
	output *bufio.Reader
	fence  lock.Fence
}

func hold(t *testing.T, k kind, dsn string, lease time.Duration) *holderProcess {
	t.Helper()
	h := &holderProcess{cmd: exec.Command(os.Args[0])}
	h.cmd.Env = append(os.Environ(), helperEnv+"="+k.name+"|"+lease.String()+"|"+dsn)
	out, err := h.cmd.StdoutPipe()
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, h.output)
		_ = h.cmd.Wait()
	})
	h.output = bufio.NewReader(out)
	line, err := h.output.ReadString('\n')
	if _, wrong := fmt.Sscanf(line, "fence %d", &h.fence); err != nil || wrong != nil {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	return h
}

var noExpiry = kind{
	"no expiry",
	func(db *sql.DB, _ time.Duration) locker { return NewTable(db, TableOptions{NoExpiry: true}) },
}

// A holder whose process ended is followed: at once if its lock lived in a connection, after the lease if it was a row.
func TestAHolderThatIsKilledIsFollowed(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		lease := time.Minute // nobody waits for it
		if k.name == table.name {
			lease = 2 * time.Second
		}
		dsn := database(t)
		h := hold(t, k, dsn, lease)
		l := k.open(t, dsn, 0)
		if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
			t.Fatalf("err = %v, want ErrHeld", err)
		}
		if err := h.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		next := acquire(t, l, "k")
		if took := time.Since(killed); took > soon {
			t.Errorf("followed after %v, want at most %v", took, soon)
		}
		if next.Fence() <= h.fence {
			t.Errorf("fence %d after %d", next.Fence(), h.fence)
		}
	})
}

// A process that is frozen does not keep the key for ever: the server ends a connection on which it hears nothing.
// When the process goes on it knows at once.
func TestAHolderThatIsFrozenIsFollowed(t *testing.T) {
	const lease = 2 * time.Second
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		h := hold(t, k, dsn, lease)
		if err := h.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		frozen := time.Now()
		next := acquire(t, k.open(t, dsn, 0), "k")
		if took := time.Since(frozen); took > soon {
			t.Errorf("followed after %v, want at most about %v", took, lease)
		}
		if next.Fence() <= h.fence {
			t.Errorf("fence %d after %d", next.Fence(), h.fence)
		}
		if err := h.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if line, err := h.output.ReadString('\n'); !strings.HasPrefix(line, "lost") {
			t.Errorf("the frozen holder says %q, %v", line, err)
		}
	})
}

// Without an expiry nobody follows, which is what the option is there to show, until the row is cleared by hand.
func TestWithoutExpiryACrashIsForEver(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	db := pool(t, dsn, 2)
	h := hold(t, noExpiry, dsn, 0)
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l := table.open(t, dsn, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := l.Acquire(ctx, "k", lock.Options{})
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Remaining != 0 {
		t.Errorf("err = %v, want a HeldError without an end", err)
	}
	if years := count(
		t, db, "SELECT TIMESTAMPDIFF(YEAR, UTC_TIMESTAMP(), expires_at) FROM locks WHERE name = 'k'",
	); years < 100 {
		t.Errorf("runs out in %d years", years)
	}
	execSQL(t, db, "DELETE FROM locks WHERE name = 'k'")
	if next := acquire(t, l, "k"); next.Fence() <= h.fence {
		t.Errorf("fence %d after %d", next.Fence(), h.fence)
	}
}
