package daemon

import (
	"context"
	"os"
)

// dumpWhenAsked calls Dump for each signal from asked, until ctx ends.
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
