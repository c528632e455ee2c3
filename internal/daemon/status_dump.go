package daemon

import (
	"context"
	"os"
	"time"
)

// dumpWhenAsked writes the status whenever a signal comes, until ctx ends.
func (d *daemon) dumpWhenAsked(ctx context.Context, asked <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			// In one write, so that log lines do not stand between.
			_, _ = d.opts.Dump.Write(d.admin.Report().Text(time.Now()))
		}
	}
}
