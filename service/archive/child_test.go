package archive_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"example.com/stock/service/archive"
	"example.com/stock/service/order"
)

// A test that kills an archiver runs it in a process of its own: this program, with childMode in its environment.
const (
	childMode    = "ARCHIVE_TEST_CHILD" // "written": it dies before a step; "removed": after one
	childStore   = "ARCHIVE_TEST_STORE"
	childAddress = "ARCHIVE_TEST_ADDRESS"
	childDir     = "ARCHIVE_TEST_DIR"
	childBefore  = "ARCHIVE_TEST_BEFORE"
	childPart    = "ARCHIVE_TEST_PART" // at which it dies
)

// mortal is a store whose process dies at a part.
type mortal struct{ archive.Store }

func (m mortal) TakeAway(ctx context.Context, t order.Taking) error {
	mine := fmt.Sprint(t.Part.Number) == os.Getenv(childPart)
	if mine && os.Getenv(childMode) == "written" {
		die()
	}
	err := m.Store.TakeAway(ctx, t)
	if mine {
		die()
	}
	return err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func child() {
	s, _, err := place{os.Getenv(childStore), os.Getenv(childAddress)}.open()
	if err != nil {
		fmt.Println(err)
		return
	}
	before, err := time.Parse(time.RFC3339Nano, os.Getenv(childBefore))
	if err != nil {
		fmt.Println(err)
		return
	}
	done, err := archive.Run(context.Background(), mortal{s}, archive.Options{
		Before: before, Dir: os.Getenv(childDir), Name: os.Getenv(childStore), Batch: 7,
	})
	fmt.Println(done, err)
}

// An archiver that is killed between its file and its step, or right after the step, loses nothing and doubles nothing:
// the next one goes on, whatever was sold or canceled meanwhile.
func TestKilled(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		made := s.history(t, 20)
		s.relay(t)
		before := s.now(t)
		orders := len(made)
		for _, death := range []struct{ mode, part string }{
			{"written", "1"}, {"removed", "3"}, {"written", "5"}, {"written", "11"}, {"removed", "12"},
		} {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), childMode+"="+death.mode, childPart+"="+death.part, childStore+"="+s.store,
				childAddress+"="+s.address, childDir+"="+s.dir, childBefore+"="+before.Format(time.RFC3339Nano))
			out, err := c.CombinedOutput()
			if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("%+v: %v\n%s", death, err, out)
			}
			s.buy(t, "meanwhile", "a", "b")
			orders++
		}
		s.relay(t)
		done := s.mustRun(t)
		if done.Resumed != 0 || done.Orders == 0 {
			t.Errorf("%+v", done)
		}
		s.whole(t, orders)
	})
}

// An order of the part that a killed archiver has written is canceled before the next run: that part is made anew.
func TestKilledAndThenChanged(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		s.stock(t, "a", 10)
		o := s.buy(t, "ann", "a")
		s.buy(t, "bob", "a")
		s.relay(t)
		before := s.now(t)
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childMode+"=written", childPart+"=2", childStore+"="+s.store,
			childAddress+"="+s.address, childDir+"="+s.dir, childBefore+"="+before.Format(time.RFC3339Nano))
		if out, err := c.CombinedOutput(); c.ProcessState.ExitCode() != -1 {
			t.Fatalf("%v\n%s", err, out)
		}
		must[order.Order](t)(s.CancelOrder(t.Context(), "", "ann", o.ID))
		s.relay(t)
		if done := s.mustRun(t); done.Orders != 2 || done.Resumed != 0 {
			t.Errorf("%+v", done)
		}
		if _, err := os.Stat(s.dir + "/" + archive.FileName(s.store, 2) + ".refused"); err != nil {
			t.Error(err)
		}
		s.whole(t, 2)
	})
}
