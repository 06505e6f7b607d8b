package bundle

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reserveSize is enough for containerd to start with hundreds of containers: it writes a block
// for each container, and forgets the container if it can't.
const reserveSize = 4 << 20

// spendReserve makes room for a start of containerd if the disk is full. A container that
// containerd forgets goes on running, and would be started a second time.
func (l *launcher) spendReserve() {
	free, err := freeBytes(l.paths.run)
	if err != nil || free >= reserveSize {
		return
	}
	if err := os.Remove(l.paths.reserve); err == nil {
		l.log.Warn("the disk is full: containerd is given the reserve to start with", "bytes", reserveSize)
	}
}

// keepReserve makes the file that spendReserve removes, if that leaves enough free space.
func keepReserve(p paths) error {
	var there unix.Stat_t
	if err := unix.Stat(p.reserve, &there); err == nil && there.Blocks*512 >= reserveSize {
		return nil
	}
	free, err := freeBytes(p.run)
	if err != nil {
		return err
	}
	if free < 2*reserveSize {
		return fmt.Errorf("reserve room: %w", unix.ENOSPC)
	}
	file, err := os.OpenFile(p.reserve, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, reserveSize)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = file.Write(make([]byte, reserveSize))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(p.reserve)
	}
	return err
}

func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("measure the disk of %s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, nil // no disk is that large
}
