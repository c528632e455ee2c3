package daemon

import (
	"context"
	"os"
	"time"
)

// dumpWhenAsked writes the status whenever a signal arrives, until ctx ends.
func (d *daemon) dumpWhenAsked(ctx context.Context, asked <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			// One write, so that no log line comes between.
			_, _ = d.opts.Dump.Write(d.admin.Report().Text(time.Now()))
		}
	}
}
