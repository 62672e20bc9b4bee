package powerfs

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// mount serves the disk on its folder.
func (d *Disk) mount() error {
	var served sync.WaitGroup
	server, err := d.serve(&served)
	if err != nil {
		return &fs.PathError{Op: "mount", Path: d.dir, Err: err}
	}
	d.unmount = func() error {
		// A process that was killed may still be closing its files for a moment.
		for deadline := time.Now().Add(unmountBound); ; {
			err := server.Unmount()
			if err == nil {
				served.Wait()
				return nil
			}
			if time.Now().After(deadline) {
				return err
			}
		}
	}
	if err := d.closeOnce(); err != nil {
		return errors.Join(err, d.Unmount())
	}
	return nil
}

// serve mounts the disk, and keeps two files of the library from the programs that this process starts. With the
// connection to the kernel, a program would keep the mount alive, and itself waiting, after the death of this process.
// With the file that WaitMount opens on the disk, it would prevent Unmount for as long as it runs.
func (d *Disk) serve(served *sync.WaitGroup) (*fuse.Server, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	server, err := fuse.NewServer(&volume{RawFileSystem: fuse.NewDefaultRawFileSystem(), Disk: d}, d.dir,
		&fuse.MountOptions{
			Name: "powerfs", FsName: "powerfs", DirectMountStrict: true,
			DisableXAttrs: true, DisableReadDirPlus: true, IgnoreSecurityLabels: true,
		})
	if err != nil {
		return nil, err
	}
	const own = "/proc/self/fd"
	open, _ := os.ReadDir(own) // Linux without /proc is not supported
	for _, e := range open {
		if device, err := os.Readlink(filepath.Join(own, e.Name())); err == nil && device == "/dev/fuse" {
			fd, _ := strconv.Atoi(e.Name())
			syscall.CloseOnExec(fd)
		}
	}
	served.Go(server.Serve)
	if err := server.WaitMount(); err != nil {
		return nil, errors.Join(err, server.Unmount())
	}
	return server, nil
}

// closeOnce closes a file, so that the kernel asks for a flush, finds that there is none, and asks no more. A process
// that this one starts closes all files before it runs. If that had to be answered here, and the garbage collector
// waited for the thread that starts the process, both would wait for ever. For the same reason no program may be
// started with its working folder on the disk.
func (d *Disk) closeOnce() error {
	path := filepath.Join(d.dir, ".closed")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Remove(path)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.moved = false
	return nil
}

// unmountBound is how long unmount waits for files to be closed. Each try of the library takes 0.2 s.
const unmountBound = 10 * time.Second

// A volume answers the kernel. Its methods hold mu of the Disk. What it does not implement is ENOSYS.
type volume struct {
	fuse.RawFileSystem
	*Disk
	opened  uint64
	listing map[uint64][]fuse.DirEntry // of open folders
}

// names is how long the kernel may cache names and attributes: nobody else changes them.
const names = 60

func (v *volume) String() string { return "powerfs" }

// with calls f with an inode.
func (v *volume) with(id uint64, f func(*inode) error) fuse.Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.inodes[id]
	if n == nil {
		return fuse.ENOENT
	}
	return fuse.ToStatus(f(n))
}

func (n *inode) attr(out *fuse.Attr) {
	*out = fuse.Attr{Ino: n.id, Size: uint64(n.size), Mode: n.mode, Nlink: 1, Blksize: blockSize}
	out.Blocks = uint64(len(n.blocks)) * blockSize / 512
	out.Uid, out.Gid = uint32(os.Getuid()), uint32(os.Getgid())
	out.SetTimes(&n.changed, &n.changed, &n.changed)
}

func (n *inode) entry(out *fuse.EntryOut) {
	out.NodeId, out.Generation, out.EntryValid, out.AttrValid = n.id, 1, names, names
	n.attr(&out.Attr)
}

func (v *volume) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return v.with(in.NodeId, func(dir *inode) error {
		n := dir.children[name]
		if n == nil {
			return syscall.ENOENT
		}
		n.entry(out)
		return nil
	})
}

func (v *volume) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return v.with(in.NodeId, func(n *inode) error {
		out.AttrValid = names
		n.attr(&out.Attr)
		return nil
	})
}

func (v *volume) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return v.with(in.NodeId, func(n *inode) error {
		if size, ok := in.GetSize(); ok {
			n.resize(int64(size))
		}
		if mode, ok := in.GetMode(); ok {
			n.mode = n.mode&syscall.S_IFMT | mode&^syscall.S_IFMT
		}
		if at, ok := in.GetMTime(); ok {
			n.changed = at
		}
		out.AttrValid = names
		n.attr(&out.Attr)
		return nil
	})
}

func (v *volume) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return v.with(in.NodeId, func(dir *inode) error { return v.create(dir, name, in.Mode, out) })
}

func (v *volume) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return v.with(in.NodeId, func(dir *inode) error { return v.create(dir, name, in.Mode|syscall.S_IFDIR, out) })
}

func (v *volume) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return v.with(in.NodeId, func(dir *inode) error {
		return v.create(dir, name, in.Mode|syscall.S_IFREG, &out.EntryOut)
	})
}

func (v *volume) create(dir *inode, name string, mode uint32, out *fuse.EntryOut) error {
	n, err := v.add(dir, name, mode)
	if err != nil {
		return err
	}
	n.entry(out)
	return nil
}

func (v *volume) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return v.with(in.NodeId, func(dir *inode) error { return v.remove(dir, name, false) })
}

func (v *volume) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return v.with(in.NodeId, func(dir *inode) error { return v.remove(dir, name, true) })
}

func (v *volume) Rename(_ <-chan struct{}, in *fuse.RenameIn, name, as string) fuse.Status {
	return v.with(in.NodeId, func(from *inode) error {
		to := v.inodes[in.Newdir]
		if in.Flags != 0 || to == nil {
			return syscall.EINVAL
		}
		return v.rename(from, name, to, as)
	})
}

func (v *volume) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.OK }

func (v *volume) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return v.with(in.NodeId, func(n *inode) error {
		if in.Flags&syscall.O_TRUNC != 0 {
			n.resize(0)
		}
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
		return nil
	})
}

func (v *volume) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	status := v.with(in.NodeId, func(n *inode) error {
		buf = n.read(buf, int64(in.Offset))
		return nil
	})
	return fuse.ReadResultData(buf), status
}

// Write does not look at O_SYNC: the kernel sends an Fsync after such a write.
func (v *volume) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return uint32(len(data)), v.with(in.NodeId, func(n *inode) error {
		n.write(data, int64(in.Offset))
		return nil
	})
}

func (v *volume) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	return v.with(in.NodeId, func(n *inode) error {
		if in.Mode != 0 {
			return syscall.EOPNOTSUPP // punching holes
		}
		n.resize(max(n.size, int64(in.Offset+in.Length)))
		return nil
	})
}

func (v *volume) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return v.with(in.NodeId, func(n *inode) error {
		v.sync(n)
		return nil
	})
}

func (v *volume) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return v.Fsync(cancel, in)
}

// OpenDir lists the folder. So removing files while one reads the list skips none.
func (v *volume) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return v.with(in.NodeId, func(dir *inode) error {
		var list []fuse.DirEntry
		for _, name := range slices.SortedFunc(maps.Keys(dir.children), cmp.Compare[string]) {
			n := dir.children[name]
			list = append(list, fuse.DirEntry{Name: name, Mode: n.mode, Ino: n.id})
		}
		if v.listing == nil {
			v.listing = make(map[uint64][]fuse.DirEntry)
		}
		v.opened++
		v.listing[v.opened], out.Fh = list, v.opened
		return nil
	})
}

func (v *volume) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return v.with(in.NodeId, func(*inode) error {
		list := v.listing[in.Fh]
		for at := in.Offset; at < uint64(len(list)); at++ {
			e := list[at]
			e.Off = at + 1
			if !out.AddDirEntry(e) {
				break
			}
		}
		return nil
	})
}

func (v *volume) ReleaseDir(in *fuse.ReleaseIn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.listing, in.Fh)
}

// StatFs reports much free space, which MariaDB asks for.
func (v *volume) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	const blocks = 1 << 30 / blockSize
	*out = fuse.StatfsOut{
		Bsize: blockSize, Frsize: blockSize, Blocks: blocks, Bfree: blocks, Bavail: blocks,
		Files: 1 << 20, Ffree: 1 << 20, NameLen: 255,
	}
	return fuse.OK
}
