package daemon

import (
	"context"
	"os"
)

// dumpWhenAsked calls Dump whenever a signal arrives, until ctx ends.
func (d *daemon) dumpWhenAsked(ctx context.Context, asked <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			d.opts.Dump(d.admin.Report())
		}
	}
}
