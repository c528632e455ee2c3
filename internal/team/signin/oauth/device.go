package oauth

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// Device is an answer of a device authorization endpoint (RFC 8628 §3.2).
type Device struct {
	Code     secret.Text
	User     string        // the code for the person, safe to print
	Page     string        // where they type it
	Whole    string        // the page with the code in it; "" if there is none
	Until    time.Time     // when both expire
	Interval time.Duration // how long to wait between polls
}

// StartDevice starts a device flow.
func (e *Endpoint) StartDevice(ctx context.Context, resource string, scopes []string) (Device, error) {
	if e.Issuer.Device == "" {
		return Device{}, fault(EndpointMissing, e.Issuer.At, "%s has no device flow", show(e.Issuer.Issuer)).
			next("sign in with a browser on this machine, or paste the address that the sign-in ends on")
	}
	form := url.Values{}
	optional(form, "scope", strings.Join(scopes, " "))
	optional(form, "resource", resource)
	a, err := e.send(ctx, e.Issuer.Device, form)
	if err != nil {
		return Device{}, err
	}
	dev, err := readDevice(a.Body, time.Now())
	if err == nil && strings.HasPrefix(e.Issuer.Issuer, "https:") && !(strings.HasPrefix(dev.Page, "https:") && (dev.Whole == "" || strings.HasPrefix(dev.Whole, "https:"))) {
		return Device{}, fault(AnswerInvalid, e.Issuer.Device, "the page of the device flow of %s isn't https", show(e.Issuer.Issuer)).next("sign in with a browser instead")
	}
	return dev, err
}

// Bounds of a device flow. RFC 8628 §3.5 has 5 s where the answer doesn't say.
const (
	interval    = 5 * time.Second
	maxInterval = time.Minute
	maxDevice   = time.Hour
)

// readDevice reads the answer of a device authorization endpoint that came at a time.
func readDevice(raw []byte, now time.Time) (Device, error) {
	bad := func(why string) (Device, error) {
		return Device{}, fault(AnswerInvalid, "", "the authorization server's device answer can't be used: %s", why).
			next("sign in with a browser instead")
	}
	d, err := parse(raw)
	if err != nil {
		return bad("it is not a valid JSON object")
	}
	code := d.text("device_code")
	dev := Device{User: d.text("user_code"), Page: d.text("verification_uri"), Whole: d.text("verification_uri_complete"), Interval: interval}
	if dev.Page == "" {
		dev.Page = d.text("verification_url") // Google's, from a draft
	}
	life, timed := d.seconds("expires_in")
	pause, paused := d.seconds("interval")
	switch {
	case d.err != nil:
		return bad(d.err.Error())
	case !isVisible(code, maxCode):
		return bad("it has no device_code")
	case !isVisible(dev.User, 64):
		return bad("it has no user_code, or one that nobody could type")
	case !timed || life <= 0:
		return bad("it doesn't say when it expires")
	}
	for _, page := range []string{dev.Page, dev.Whole} {
		if page == "" && page != dev.Page {
			continue
		}
		if _, err := pageURL(page); err != nil {
			return bad("the page in it can't be opened")
		}
	}
	if paused {
		dev.Interval = min(max(time.Duration(min(pause, 60))*time.Second, time.Second), maxInterval)
	}
	dev.Code = secret.New(code)
	dev.Until = now.Add(time.Duration(min(life, int64(maxDevice/time.Second))) * time.Second)
	return dev, nil
}

// AwaitDevice polls until the person is done, the code expires, or ctx ends. Resource and scopes are what
// StartDevice was called with.
func (e *Endpoint) AwaitDevice(ctx context.Context, dev Device, resource string, scopes []string) (Token, error) {
	pause := dev.Interval
	for {
		if time.Now().Add(pause).After(dev.Until) {
			return Token{}, newError(e.Issuer.Issuer, "expired_token", "", 0)
		}
		if err := work.Sleep(ctx, pause); err != nil {
			return Token{}, err
		}
		t, err := e.token(ctx, grantDevice, scopes, formOf(resource, nil, "device_code", dev.Code.Reveal()))
		switch {
		case err == nil:
			return t, nil
		case ctx.Err() != nil:
			return Token{}, ctx.Err()
		case Refused(err, "authorization_pending"):
		case Refused(err, "slow_down"):
			pause = min(pause+interval, maxInterval) // RFC 8628 §3.5
		case Weather(err):
			pause = min(2*pause, maxInterval)
		default:
			return Token{}, err
		}
	}
}
