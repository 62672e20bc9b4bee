package powerfs_test

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack/powerfs"
	"example.com/stock/internal/stack/stacktest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("POWERFS_SHARE"); path != "" {
		share(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// share changes a file through shared memory, syncs it, and changes it again. A page fault on a file of powerfs stops
// the whole process until it is served, so the process that serves the disk must not do that itself.
func share(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, 10, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	copy(m, "abc")
	if err := f.Sync(); err != nil {
		panic(err)
	}
	copy(m, "xyz")
}

// mount mounts a disk for this test alone.
func mount(t *testing.T) (*powerfs.Disk, string) {
	t.Helper()
	stacktest.NeedsPowerCuts(t)
	dir := t.TempDir()
	d, err := powerfs.Mount(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return d, dir
}

func cut(t *testing.T, d *powerfs.Disk) {
	t.Helper()
	must(t, d.Cut())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// edit opens a file, calls f, and closes it.
func edit(t *testing.T, path string, flags int, f func(*os.File)) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|flags, 0o600)
	must(t, err)
	f(file)
	must(t, file.Close())
}

// put writes a file, and syncs it if synced is true.
func put(t *testing.T, path, text string, synced bool) {
	t.Helper()
	edit(t, path, os.O_CREATE|os.O_TRUNC, func(f *os.File) {
		_, err := f.WriteString(text)
		must(t, err)
		if synced {
			must(t, f.Sync())
		}
	})
}

func write(t *testing.T, f *os.File, text string, at int64) {
	t.Helper()
	_, err := f.WriteAt([]byte(text), at)
	must(t, err)
}

// tree returns the content of each file below dir by its path, and "/" for each folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		switch {
		case err != nil || name == "":
			return err
		case e.IsDir():
			found[name] = "/"
			return nil
		}
		text, err := os.ReadFile(path)
		found[name] = string(text)
		return err
	})
	must(t, err)
	return found
}

// Each line is one way in which a program changes a disk. It begins with a file "old" that has "0123456789" and is
// synced.
func TestWhatSurvivesACut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*4096+5)
	for _, c := range []struct {
		name string
		do   func(t *testing.T, dir string)
		want map[string]string
	}{
		{"nothing", func(*testing.T, string) {}, map[string]string{"old": "0123456789"}},
		{"append", func(t *testing.T, dir string) {
			edit(t, dir+"/old", os.O_APPEND, func(f *os.File) { _, _ = f.WriteString("abc") })
		}, map[string]string{"old": "0123456789"}},
		{"append, sync, append", func(t *testing.T, dir string) {
			edit(t, dir+"/old", os.O_APPEND, func(f *os.File) {
				_, _ = f.WriteString("abc")
				must(t, f.Sync())
				_, _ = f.WriteString("def")
			})
		}, map[string]string{"old": "0123456789abc"}},
		{"overwrite", func(t *testing.T, dir string) {
			edit(t, dir+"/old", 0, func(f *os.File) { write(t, f, "abc", 2) })
		}, map[string]string{"old": "0123456789"}},
		{"overwrite, fdatasync, overwrite", func(t *testing.T, dir string) {
			edit(t, dir+"/old", 0, func(f *os.File) {
				write(t, f, "abc", 2)
				must(t, syscall.Fdatasync(int(f.Fd())))
				write(t, f, "xyz", 0)
			})
		}, map[string]string{"old": "01abc56789"}},
		{"truncate", func(t *testing.T, dir string) {
			must(t, os.Truncate(dir+"/old", 3))
		}, map[string]string{"old": "0123456789"}},
		{"truncate, extend, sync", func(t *testing.T, dir string) {
			edit(t, dir+"/old", 0, func(f *os.File) {
				must(t, f.Truncate(3))
				must(t, f.Truncate(5))
				must(t, f.Sync())
			})
		}, map[string]string{"old": "012\x00\x00"}},
		{"open with O_TRUNC", func(t *testing.T, dir string) {
			edit(t, dir+"/old", os.O_TRUNC, func(*os.File) {})
		}, map[string]string{"old": "0123456789"}},
		{"several blocks, and a hole", func(t *testing.T, dir string) {
			edit(t, dir+"/old", 0, func(f *os.File) {
				write(t, f, long, 10)
				write(t, f, "end", int64(10+len(long)+5000))
				must(t, f.Sync())
				write(t, f, "lost", 4094)
			})
		}, map[string]string{"old": "0123456789" + long + strings.Repeat("\x00", 5000) + "end"}},
		{"allocate", func(t *testing.T, dir string) {
			edit(t, dir+"/old", 0, func(f *os.File) {
				must(t, syscall.Fallocate(int(f.Fd()), 0, 0, 12))
				must(t, f.Sync())
			})
		}, map[string]string{"old": "0123456789\x00\x00"}},
		{"O_SYNC", func(t *testing.T, dir string) {
			edit(t, dir+"/old", os.O_SYNC, func(f *os.File) { write(t, f, "abc", 0) })
		}, map[string]string{"old": "abc3456789"}},
		{"O_DSYNC", func(t *testing.T, dir string) {
			edit(t, dir+"/old", syscall.O_DSYNC, func(f *os.File) { write(t, f, "abc", 0) })
		}, map[string]string{"old": "abc3456789"}},
		{"shared memory", func(t *testing.T, dir string) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "POWERFS_SHARE="+dir+"/old")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}, map[string]string{"old": "abc3456789"}},
		{"create", func(t *testing.T, dir string) {
			put(t, dir+"/new", "abc", false)
		}, map[string]string{"old": "0123456789"}},
		{"create, sync: its name is durable, too", func(t *testing.T, dir string) {
			put(t, dir+"/new", "abc", true)
		}, map[string]string{"old": "0123456789", "new": "abc"}},
		{"create two, sync one: both names, one content", func(t *testing.T, dir string) {
			put(t, dir+"/new", "abc", false)
			put(t, dir+"/other", "def", true)
		}, map[string]string{"old": "0123456789", "new": "", "other": "def"}},
		{"create, sync the folder: an empty file", func(t *testing.T, dir string) {
			put(t, dir+"/new", "abc", false)
			syncDir(t, dir)
		}, map[string]string{"old": "0123456789", "new": ""}},
		{"remove", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/old"))
		}, map[string]string{"old": "0123456789"}},
		{"remove, sync the folder", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/old"))
			syncDir(t, dir)
		}, map[string]string{}},
		{"replace by renaming", func(t *testing.T, dir string) {
			put(t, dir+"/new", "abc", true)
			must(t, os.Rename(dir+"/new", dir+"/old"))
		}, map[string]string{"old": "0123456789", "new": "abc"}},
		{"replace by renaming, sync the folder", func(t *testing.T, dir string) {
			put(t, dir+"/new", "abc", true)
			must(t, os.Rename(dir+"/new", dir+"/old"))
			syncDir(t, dir)
		}, map[string]string{"old": "abc"}},
		{"replace by renaming what was never synced, sync the folder", func(t *testing.T, dir string) {
			put(t, dir+"/new", "abc", false)
			must(t, os.Rename(dir+"/new", dir+"/old"))
			syncDir(t, dir)
		}, map[string]string{"old": ""}},
		{"a folder with a file", func(t *testing.T, dir string) {
			must(t, os.MkdirAll(dir+"/a/b", 0o700))
			put(t, dir+"/a/b/new", "abc", true)
			put(t, dir+"/a/lost", "abc", false)
		}, map[string]string{"old": "0123456789", "a": "/", "a/b": "/", "a/b/new": "abc"}},
		{"move to a folder", func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/a", 0o700))
			must(t, os.Rename(dir+"/old", dir+"/a/old"))
			syncDir(t, dir)
			must(t, os.Remove(dir+"/a/old"))
			must(t, os.Remove(dir+"/a"))
		}, map[string]string{"a": "/", "a/old": "0123456789"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, dir := mount(t)
			put(t, dir+"/old", "0123456789", true)
			c.do(t, dir)
			for range 2 { // what has survived one cut survives the next
				cut(t, d)
				if got := tree(t, dir); !maps.Equal(got, c.want) {
					t.Errorf("after the cut: %q, want %q", got, c.want)
				}
			}
		})
	}
}

func syncDir(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

// Syncs counts what became durable, and nothing else.
func TestSyncs(t *testing.T) {
	t.Parallel()
	d, dir := mount(t)
	put(t, dir+"/old", "abc", true)
	before := d.Syncs()
	put(t, dir+"/old", "def", true)
	if d.Syncs() == before {
		t.Error("a sync does not count")
	}
	before = d.Syncs()
	edit(t, dir+"/old", 0, func(f *os.File) { must(t, f.Sync()) })
	put(t, dir+"/old", "ghi", false)
	put(t, dir+"/new", "ghi", false)
	if d.Syncs() != before {
		t.Error("a sync of a file that has not changed, or a write, counts")
	}
	cut(t, d)
	edit(t, dir+"/old", 0, func(f *os.File) { must(t, f.Sync()) })
	if d.Syncs() != before {
		t.Error("a sync of a file that has not changed since the cut counts")
	}
	put(t, dir+"/old", "all", false)
	d.Sync()
	cut(t, d)
	if got := tree(t, dir)["old"]; got != "all" || d.Syncs() == before {
		t.Errorf("after Sync and a cut: %q, %d syncs", got, d.Syncs()-before)
	}
}

// A program that this process starts has no connection to the kernel's side of the disk.
func TestProgramsDoNotKeepTheMount(t *testing.T) {
	t.Parallel()
	mount(t)
	out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
	if err != nil || strings.Contains(string(out), "fuse") {
		t.Errorf("open in another program: %s%v", out, err)
	}
}

// A program that this process starts during a mount has no file of the disk open, which would prevent Unmount.
func TestProgramsStartedDuringAMount(t *testing.T) {
	t.Parallel()
	stacktest.NeedsPowerCuts(t)
	dir := t.TempDir()
	for range 50 {
		var programs []*exec.Cmd
		var starting sync.WaitGroup
		begin := make(chan struct{})
		starting.Go(func() {
			close(begin)
			for range 10 {
				p := exec.Command("sleep", "600")
				if err := p.Start(); err != nil {
					t.Error(err)
					return
				}
				programs = append(programs, p)
			}
		})
		<-begin
		d, err := powerfs.Mount(dir)
		starting.Wait()
		for _, p := range programs {
			files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Process.Pid))
			for _, f := range files {
				if path, err := os.Readlink(f); err == nil && strings.HasPrefix(path, dir) {
					t.Errorf("a program has %s open", path)
				}
			}
			_ = p.Process.Kill()
			_ = p.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Unmount(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			break
		}
	}
}

// A model is a disk as two maps of whole files by their names: as programs see it, and as it is after a cut. A file is
// a number, so that it keeps its content when its name changes.
type model struct {
	names, kept      map[string]int
	content, durable map[int]string
}

// Random changes of few files, with cuts among them, agree with the model.
func TestAgreesWithAModel(t *testing.T) {
	t.Parallel()
	d, dir := mount(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	m := model{map[string]int{}, map[string]int{}, map[int]string{}, map[int]string{}}
	var done []string
	steps := 1500
	if testing.Short() {
		steps = 400
	}
	for step := range steps {
		name := string(rune('a' + r.IntN(4)))
		other := string(rune('a' + r.IntN(4)))
		n, there := m.names[name]
		path := filepath.Join(dir, name)
		op := r.IntN(12)
		done = append(done, fmt.Sprint(op, " ", name, " ", other))
		switch {
		case op == 0:
			cut(t, d)
			m.names, m.content = maps.Clone(m.kept), maps.Clone(m.durable)
		case !there:
			put(t, path, "", false)
			m.names[name], m.content[step], m.durable[step] = step, "", ""
		case op <= 4: // write somewhere, also behind the end
			at := r.IntN(2 * (len(m.content[n]) + 10))
			text := strings.Repeat(string(rune('A'+r.IntN(26))), 1+r.IntN(6000))
			edit(t, path, 0, func(f *os.File) { write(t, f, text, int64(at)) })
			old := m.content[n] + strings.Repeat("\x00", max(0, at-len(m.content[n])))
			m.content[n] = old[:at] + text + old[min(len(old), at+len(text)):]
		case op <= 6:
			size := r.IntN(len(m.content[n]) + 100)
			must(t, os.Truncate(path, int64(size)))
			old := m.content[n] + strings.Repeat("\x00", 100)
			m.content[n] = old[:size]
		case op <= 8:
			edit(t, path, 0, func(f *os.File) { must(t, f.Sync()) })
			m.kept, m.durable[n] = maps.Clone(m.names), m.content[n]
		case op == 9:
			syncDir(t, dir)
			m.kept = maps.Clone(m.names)
		case op == 10:
			must(t, os.Remove(path))
			delete(m.names, name)
		default:
			must(t, os.Rename(path, filepath.Join(dir, other)))
			delete(m.names, name)
			m.names[other] = n
		}
		want := make(map[string]string)
		for name, n := range m.names {
			want[name] = m.content[n]
		}
		if got := tree(t, dir); !maps.Equal(got, want) {
			for name := range maps.Keys(want) {
				t.Errorf("%s has %d bytes, want %d", name, len(got[name]), len(want[name]))
			}
			t.Fatalf("after %d steps %q: %d files, want %d", step+1, done[max(0, len(done)-20):], len(got), len(want))
		}
	}
}
