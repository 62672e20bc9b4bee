package servertest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"example.com/stock/lock/locktest/server"
)

// A Disk has the data of a separate server, and can be filled.
type Disk struct {
	Server *server.Server
	filler string
}

// OnDisk starts a server of that kind whose files are on a disk in memory, of the given size. Only root can mount one;
// otherwise OnDisk skips the test, or fails it if servers are required.
func OnDisk(t testing.TB, kind server.Kind, size string) *Disk {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatalf("REQUIRE_BACKENDS=1, but a small disk cannot be mounted: %v", err)
		}
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, err := server.Start(t.Context(), server.Options{Want: []server.Kind{kind}, Parent: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &Disk{real(t, s, kind), filepath.Join(dir, "filler")}
}

// Fill fills the disk. The server may still have free space in its files.
func (d *Disk) Fill(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile(d.filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 1 << 12, 1} {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
}

// Free frees the space that Fill has taken.
func (d *Disk) Free(t testing.TB) {
	t.Helper()
	if err := os.Remove(d.filler); err != nil {
		t.Fatal(err)
	}
}
