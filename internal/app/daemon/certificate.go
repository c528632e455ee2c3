package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// certificate returns what serve shows at an address, or nil if it speaks without TLS there: at a loopback
// address nobody can listen in. The error is a *Refused.
func certificate(t config.TLS, address string, log *slog.Logger) (*httpdoor.Certificate, error) {
	if t == (config.TLS{}) {
		return nil, nil
	}
	if isLocal(address) {
		log.Info("the certificate is not used, because only this machine can reach the address", "address", address)
		return nil, nil
	}
	c, err := httpdoor.LoadCertificate(t.Cert, t.Key)
	var bad *httpdoor.CertificateError
	switch {
	case errors.As(err, &bad):
		return nil, &Refused{bad.Text, bad.Next}
	case err != nil:
		return nil, err
	}
	warnExposed(c, log)
	return c, nil
}

func warnExposed(c *httpdoor.Certificate, log *slog.Logger) {
	if text, next := c.Exposed(); text != "" {
		log.Warn("others can read the key of the certificate", "cause", text, "action", next)
	}
}

// pairTime is how long the second of the two files may take after the first was replaced.
const pairTime = 2 * time.Second

// followCertificate loads a certificate again when one of its files changes, until ctx ends. While the files
// can't be used, the certificate before stays in force, with one warning.
func followCertificate(ctx context.Context, c *httpdoor.Certificate, t config.TLS, log *slog.Logger) {
	var watching sync.WaitGroup
	defer watching.Wait()
	changed := make(chan struct{}, 1)
	for _, path := range []string{t.Cert, t.Key} {
		watching.Go(func() {
			err := config.WatchEnv(ctx, path, func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
			if err != nil && ctx.Err() == nil {
				log.Warn("the certificate is not watched for changes", "cause", err.Error())
			}
		})
	}
	late := time.NewTimer(pairTime)
	late.Stop()
	defer late.Stop()
	told := "" // the last warning since the files could be used
	for {
		patient := true
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-late.C:
			patient = false
		}
		switch err := c.Load(); {
		case err == nil:
			told = ""
			late.Stop()
			log.Info("the certificate was read again")
			warnExposed(c, log)
		case patient:
			late.Reset(pairTime)
		case err.Error() != told:
			told = err.Error()
			log.Warn("the new certificate cannot be used; keeping the one before", "cause", told)
		}
	}
}
