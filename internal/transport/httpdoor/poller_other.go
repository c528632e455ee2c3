//go:build !linux

package httpdoor

import (
	"errors"
	"syscall"
	"time"
)

// canWatch is false, so connections do not rest on this system.
const canWatch = false

type poller struct{}

func newPoller() (*poller, error)               { return nil, errors.ErrUnsupported }
func (*poller) add(syscall.Conn, uint64) error  { return errors.ErrUnsupported }
func (*poller) remove(syscall.Conn)             {}
func (*poller) wait([]uint64) ([]uint64, error) { return nil, errors.ErrUnsupported }
func (*poller) wakeAt(time.Time)                {}
func (*poller) close()                          {}
