package failure

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Reason returns the cause of an error of a file or of the network, such as "connection refused". It leaves
// out the operation, the path and the address that packages os, net and http add, for texts that already
// name the file or the address. err must not be nil.
func Reason(err error) string {
	var (
		dns  *net.DNSError
		get  *url.Error
		op   *net.OpError
		path *fs.PathError
		call *os.SyscallError
	)
	for {
		switch {
		case errors.As(err, &dns):
			return "the host name " + strconv.Quote(excerpt.Line(dns.Name, maxQuoted)) + " cannot be resolved"
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
			return "no answer in time"
		case errors.As(err, &get):
			err = get.Err
		case errors.As(err, &op):
			err = op.Err
		case errors.As(err, &path):
			err = path.Err
		case errors.As(err, &call):
			err = call.Err
		default:
			return excerpt.Line(err.Error(), maxSentence)
		}
	}
}
