//go:build !linux

package powerfs

import "errors"

func (d *Disk) mount() error { return errors.ErrUnsupported }
