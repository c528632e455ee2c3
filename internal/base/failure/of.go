package failure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// Of returns the failure that err and the facts describe. It never returns nil. If err has a
// Failure in its chain, Of returns that Failure unchanged. Otherwise, errors in the chain that
// implement Source add the facts that are not set yet.
func Of(err error, facts Facts) *Failure {
	var have *Failure
	if errors.As(err, &have) && have != nil {
		return have
	}
	f := &facts
	if err != nil {
		f.gather(err)
	}
	if f.Class == "" {
		f.Class = f.classify(err)
	}
	if f.Class == Exited {
		if name, _ := missingVariable(f.Stderr); name != "" || len(f.Withheld) > 0 {
			f.Class = MissingVariable
		}
	}
	out := &Failure{Class: f.Class, Server: f.Server, Status: f.Status, Cause: f.Cause, Err: err}
	f.tell(out, err)
	return out
}

// words contains the class for each short word that names the cause of a failed handshake or call.
// It does not contain words that may belong to several classes.
var words = map[string]Class{
	"cancelled": Cancelled, "timeout": Silent, "exited": Exited, "rate_limited": Overloaded, "unavailable": Overloaded,
	"overloaded": Overloaded, "limit": Overloaded, "server_error": ServerError, "refused": Rejected, "not_ready": NotReady,
	"no_common_version": WrongVersion, "pinned": WrongVersion, "bad_answer": ProtocolError, "echo": ProtocolError, "bad_response": ProtocolError,
	"dialect": OtherProtocol, "stalled": Stalled, "too_large": TooLarge, "cut_off": CutOff, "session_lost": SessionLost,
	"stopped": Stopped, "restarted": Stopped, "removed": Removed, "shutdown": Removed, "key_ended": KeyEnded, "not_admitted": NotAdmitted, "auth": Unauthorized, "auth_required": Unauthorized,
	"dns": DNS, "tls": TLS, "connect": Unreachable, "link": CutOff, "unreachable": Unreachable, "exec": CannotStart,
}

// classify finds the class of a failure from its facts and its error.
func (f *Facts) classify(err error) Class {
	switch f.Cause {
	case "session_lost", "cut_off", "removed", "shutdown", "cancelled", "stopped", "restarted", "key_ended":
		return words[f.Cause]
	}
	if c := f.byStatus(); c != "" {
		return c
	}
	c := words[f.Cause]
	switch c {
	case "", Unreachable, CannotStart:
		if d := byError(err); d != "" && !(d == Exited && c == Unreachable) {
			return f.orCutOff(d)
		}
	case Silent:
		if f.Command != "" && len(f.Stdout) > 0 {
			return NotJSON
		}
	case Exited:
		if f.Command != "" && len(f.Stdout) > 0 {
			if _, best := rank(f.Stderr); best == "" {
				return NotJSON
			}
		}
	}
	switch {
	case f.Start != "":
		return CannotStart
	case c == "":
		return Internal
	}
	return f.orCutOff(c)
}

// orCutOff returns c, or CutOff instead of Exited for a server with a URL, which has no process of ours.
func (f *Facts) orCutOff(c Class) Class {
	if c == Exited && f.Command == "" && f.Address != "" {
		return CutOff
	}
	return c
}

var plainOnTLS = pattern.Later(`(?i)(HTTP request to an HTTPS server|plain HTTP request was sent to HTTPS port|speaking plain HTTP to an SSL)`)

// byStatus returns the class of an HTTP status. It returns "" if the status has no class. A call can't
// have the wrong path, because there was a handshake at the same URL.
func (f *Facts) byStatus() Class {
	switch s := f.Status; {
	case s == 0:
		return ""
	case s == http.StatusBadRequest && plainOnTLS().Match(f.Body):
		return WrongScheme
	case s == http.StatusUnauthorized && f.wantsSignIn():
		return NeedsSignIn
	case s == http.StatusUnauthorized, s == http.StatusForbidden, s == http.StatusProxyAuthRequired:
		return Unauthorized
	case s == http.StatusTooManyRequests, s == http.StatusServiceUnavailable:
		return Overloaded
	case s == http.StatusNotImplemented && f.Answer == "" && !f.Call: // a web server that has no POST
		return WrongPath
	case s >= 500:
		return ServerError
	case s >= 300 && s < 400:
		return Redirected
	case (s == http.StatusNotFound || s == http.StatusMethodNotAllowed) && f.Answer == "" && !f.Call:
		return WrongPath
	case f.page(), len(f.Found) > 0:
		return WrongPath
	case s >= 400 && f.Cause != "no_common_version" && f.Cause != "pinned" && f.Cause != "not_ready" && f.Cause != "timeout":
		return Rejected
	case s < 300:
		return ProtocolError
	}
	return ""
}

// page reports whether the server was opened and answered with a web page. No MCP endpoint sends one.
func (f *Facts) page() bool {
	return !f.Call && f.Answer == "" && strings.Contains(strings.ToLower(f.ContentType), "html")
}

// wantsSignIn reports whether a 401 to a request without credentials asks for OAuth
// (2025-06-18 §Authorization, "Authorization Server Location"; 2026-07-28 the same).
func (f *Facts) wantsSignIn() bool {
	low := strings.ToLower(f.Challenge)
	return !f.Credentials && (strings.Contains(low, "resource_metadata") || strings.Contains(low, "authorization_uri") ||
		strings.Contains(low, "bearer") && strings.Contains(low, "scope="))
}

// byError returns the class of an error of the operating system or the network. It returns ""
// for any other error.
func byError(err error) Class {
	var (
		dns     *net.DNSError
		op      *net.OpError
		record  tls.RecordHeaderError
		ca      x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		cert    *tls.CertificateVerificationError
		alert   tls.AlertError
	)
	listening := errors.As(err, &op) && op.Op == "listen"
	switch {
	case err == nil:
		return ""
	case proxyFault(err) != nil:
		return Unreachable
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return OutOfFiles
	case errors.Is(err, exec.ErrNotFound):
		return CommandNotFound
	case listening && isAny(err, addressInUse):
		return PortInUse
	case listening && isAny(err, accessDenied):
		return Permission
	case listening:
		return CannotListen
	case errors.As(err, &dns):
		return DNS
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"),
		strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`), strings.Contains(err.Error(), `malformed HTTP status code`) && strings.Contains(err.Error(), `\x15\x03`):
		return WrongScheme
	case errors.As(err, &ca), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &cert), errors.As(err, &alert),
		strings.Contains(err.Error(), "tls: "), strings.Contains(err.Error(), "x509: "):
		return TLS
	case isAny(err, connectionRefused):
		return ConnectionRefused
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Unreachable
	case errors.Is(err, fs.ErrNotExist):
		return CommandNotFound
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Silent
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Exited
	}
	return ""
}

// proxyFault returns the error of a connection to a proxy in the chain of err, or nil.
func proxyFault(err error) *net.OpError {
	for {
		var op *net.OpError
		switch {
		case !errors.As(err, &op):
			return nil
		case op.Op == "proxyconnect":
			return op
		}
		err = op.Err
	}
}

func isAny(err error, numbers []syscall.Errno) bool {
	for _, n := range numbers {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}
