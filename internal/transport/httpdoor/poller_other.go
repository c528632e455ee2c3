//go:build !linux

package httpdoor

import (
	"errors"
	"net"
	"time"
)

// canWatch is false, so connections do not rest on this system.
const canWatch = false

type interest uint32

const (
	forBytes interest = iota
	forEnd
	atOnce
)

type poller struct{}

func newPoller() (*poller, error)                    { return nil, errors.ErrUnsupported }
func (*poller) add(net.Conn, uint64, interest) error { return errors.ErrUnsupported }
func (*poller) remove(net.Conn)                      {}
func (*poller) wait([]uint64) ([]uint64, error)      { return nil, errors.ErrUnsupported }
func (*poller) wakeAt(time.Time)                     {}
func (*poller) close()                               {}
func atEnd(net.Conn) bool                            { return false }
