// Package powerfs is a file system whose power can be cut: what was synced before the cut is there after it, and
// everything else is gone. SIGKILL does not do that to a server, because the kernel writes its files later. It needs
// Linux with /dev/fuse, and root. All files are in the memory of this process.
//
// What survives a cut:
//
//   - The content and the size of a file as of its last fsync or fdatasync. A write to a file that is open with O_SYNC
//     or O_DSYNC is followed by one. O_DIRECT alone syncs nothing.
//   - The names of files as of the last sync of any file or folder. Every sync makes all earlier creates, renames and
//     removals durable, in all folders, as the journals of ext4 (data=ordered, its default) and XFS do. A file whose
//     name is durable and whose content was never synced is empty.
//   - Everything that was written before [Disk.Sync].
//
// What differs from a real disk:
//
//   - Nothing is written back without a sync. A kernel does that by itself, usually within 5 to 30 s.
//   - A sync takes effect as a whole or not at all. There are no torn pages, and writes after the last sync are never
//     kept in part or out of order.
//   - A disk that reports a sync as done, and has it only in a cache without a battery, is not modelled.
//   - Symbolic links, hard links, and extended attributes are not supported. Modes and times survive every cut.
package powerfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Disk is a mounted file system. It is safe for concurrent use.
type Disk struct {
	dir     string
	unmount func() error // nil: not mounted

	mu     sync.Mutex
	syncs  uint64
	moved  bool // names have changed since the last sync
	last   uint64
	inodes map[uint64]*inode // by id; removed ones are kept until the next cut, because programs may have them open
}

// rootID is FUSE's number of the folder at the top.
const rootID = 1

// Syncs returns how many syncs have made something durable. A sync of a file that has not changed does not count.
func (d *Disk) Syncs() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// Sync makes everything durable, as sync(2) does.
func (d *Disk) Sync() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.inodes {
		d.sync(n)
	}
}

// Cut drops everything that was not synced. It mounts the file system anew, because the kernel has cached it: all files
// must be closed. After an error it is not mounted, or not cut.
func (d *Disk) Cut() error {
	if err := d.Unmount(); err != nil {
		return err
	}
	d.mu.Lock()
	d.forget()
	d.mu.Unlock()
	return d.mount()
}

// Unmount ends the file system. All files must be closed. If it is not mounted, Unmount returns nil.
func (d *Disk) Unmount() error {
	if d.unmount == nil {
		return nil
	}
	if err := d.unmount(); err != nil {
		return &fs.PathError{Op: "unmount", Path: d.dir, Err: err}
	}
	d.unmount = nil
	return nil
}

// Mount mounts an empty file system on the folder dir, whose path must be absolute. Unmount ends it. If this process
// is killed, "umount dir" does.
func Mount(dir string) (*Disk, error) {
	root := &inode{id: rootID, mode: syscall.S_IFDIR | 0o755, changed: time.Now(), children: map[string]*inode{}}
	d := &Disk{dir: dir, last: rootID, inodes: map[uint64]*inode{rootID: root}}
	if err := d.mount(); err != nil {
		return nil, err
	}
	return d, nil
}

// blockSize is the unit in which content is shared between a file and its durable copy.
const blockSize = 4096

// A block is never changed after it has become durable. A nil block has only zeros.
type block [blockSize]byte

// content is the bytes of a file. Bytes of its blocks at or after size are zero.
type content struct {
	size   int64
	blocks []*block
}

// An inode is a file or a folder.
type inode struct {
	id      uint64
	mode    uint32 // type and permissions
	changed time.Time

	// Of a file: as programs see it, and as it is after a cut.
	content
	durable content
	dirty   bool // they differ

	// Of a folder: nil for files.
	children map[string]*inode
	kept     map[string]*inode // after a cut
}

func (n *inode) isDir() bool { return n.children != nil }

// sync makes n and all names durable. d.mu is held.
func (d *Disk) sync(n *inode) {
	if !n.dirty && !d.moved {
		return
	}
	d.syncs++
	n.durable, n.dirty = content{n.size, slices.Clone(n.blocks)}, false
	if !d.moved {
		return
	}
	d.moved = false
	for _, dir := range d.inodes {
		dir.kept = maps.Clone(dir.children)
	}
}

// forget sets everything back to what is durable. d.mu is held.
func (d *Disk) forget() {
	root := d.inodes[rootID]
	d.moved, d.inodes = false, make(map[uint64]*inode)
	var restore func(*inode)
	restore = func(n *inode) {
		d.inodes[n.id] = n
		n.content, n.dirty = content{n.durable.size, slices.Clone(n.durable.blocks)}, false
		if n.isDir() {
			n.children = maps.Clone(n.kept)
			if n.children == nil {
				n.children = map[string]*inode{}
			}
		}
		for _, child := range n.children {
			restore(child)
		}
	}
	restore(root)
}

// add makes an inode in a folder. d.mu is held.
func (d *Disk) add(dir *inode, name string, mode uint32) (*inode, error) {
	if dir.children[name] != nil {
		return nil, syscall.EEXIST
	}
	d.last++
	n := &inode{id: d.last, mode: mode, changed: time.Now()}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.children = map[string]*inode{}
	}
	d.inodes[n.id] = n
	d.name(dir, name, n)
	return n, nil
}

// name gives n a name in a folder. If n is nil, it removes the name. d.mu is held.
func (d *Disk) name(dir *inode, name string, n *inode) {
	if n == nil {
		delete(dir.children, name)
	} else {
		dir.children[name] = n
	}
	d.moved, dir.changed = true, time.Now()
}

// remove removes a name from a folder. isDir says what it must be. d.mu is held.
func (d *Disk) remove(dir *inode, name string, isDir bool) error {
	n := dir.children[name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case isDir && !n.isDir():
		return syscall.ENOTDIR
	case !isDir && n.isDir():
		return syscall.EISDIR
	case len(n.children) > 0:
		return syscall.ENOTEMPTY
	}
	d.name(dir, name, nil)
	return nil
}

// rename moves a name, and replaces what has the new one. d.mu is held.
func (d *Disk) rename(from *inode, name string, to *inode, as string) error {
	n := from.children[name]
	if n == nil {
		return syscall.ENOENT
	}
	if old := to.children[as]; old == n {
		return nil
	} else if old != nil {
		if err := d.remove(to, as, n.isDir()); err != nil {
			return err
		}
	}
	d.name(from, name, nil)
	d.name(to, as, n)
	return nil
}

// read returns the bytes at off, at most as many as p has room for.
func (n *inode) read(p []byte, off int64) []byte {
	p = p[:max(0, min(int64(len(p)), n.size-off))]
	for done := 0; done < len(p); {
		i, at := (off+int64(done))/blockSize, (off+int64(done))%blockSize
		part := p[done:min(len(p), done+blockSize-int(at))]
		if b := n.at(i); b != nil {
			copy(part, b[at:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	return p
}

// write writes p at off.
func (n *inode) write(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	n.resize(max(n.size, off+int64(len(p))))
	for done := 0; done < len(p); {
		i, at := (off+int64(done))/blockSize, (off+int64(done))%blockSize
		done += copy(n.own(i)[at:], p[done:])
	}
	n.touch()
}

// resize sets the size. What is added is zero.
func (n *inode) resize(size int64) {
	if size == n.size {
		return
	}
	if last := size / blockSize; size < n.size && size%blockSize > 0 && n.at(last) != nil {
		clear(n.own(last)[size%blockSize:])
	}
	blocks := int((size + blockSize - 1) / blockSize)
	if blocks <= len(n.blocks) {
		n.blocks = n.blocks[:blocks]
	} else {
		n.blocks = append(n.blocks, make([]*block, blocks-len(n.blocks))...)
	}
	n.size = size
	n.touch()
}

func (n *inode) touch() { n.dirty, n.changed = true, time.Now() }

// at returns block i, or nil if it has only zeros.
func (n *inode) at(i int64) *block {
	if i < int64(len(n.blocks)) {
		return n.blocks[i]
	}
	return nil
}

// own returns block i for a change. A block that is durable is replaced by a copy.
func (n *inode) own(i int64) *block {
	b := n.blocks[i]
	switch {
	case b == nil:
		n.blocks[i] = new(block)
	case i < int64(len(n.durable.blocks)) && n.durable.blocks[i] == b:
		c := *b
		n.blocks[i] = &c
	}
	return n.blocks[i]
}

// Check returns nil if a file system can be mounted here, and otherwise the reason.
func Check() (err error) {
	dir, err := os.MkdirTemp("", "powerfs-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	d, err := Mount(dir)
	if err != nil {
		return err
	}
	return d.Unmount()
}
