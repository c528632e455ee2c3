package admin

import "github.com/dragoman-mcp/dragoman/internal/excerpt"

// HandshakeStep is one step of a handshake. Known secrets in it are masked.
type HandshakeStep struct {
	AtMS   int64  // since the handshake began
	Sent   string // "" for a message that was not asked for
	Got    string
	Reason string // why this leads to the next step
	// Params and Answer are the beginning of the params that were sent and of the answer. The
	// sizes are those of the whole, in bytes.
	Params, Answer           string
	ParamsBytes, AnswerBytes int
}

// Steps returns the last handshake with a server: the trace of the status in parts, and the
// messages. It is nil for a server that is not known.
func (a *API) Steps(server string) (out []HandshakeStep) {
	for _, u := range a.opts.Runtime.Report().Servers {
		if u.Name != server {
			continue
		}
		for _, x := range u.Steps {
			out = append(out, HandshakeStep{
				AtMS: x.At.Milliseconds(), Sent: u.Clean(x.Sent), Got: u.Clean(x.Got), Reason: u.Clean(x.Reason),
				Params: beginning(x.Params, x.ParamsSize, u.Clean), ParamsBytes: x.ParamsSize,
				Answer: beginning(x.Answer, x.AnswerSize, u.Clean), AnswerBytes: x.AnswerSize,
			})
		}
	}
	return out
}

// maskReach is how much of the end of a message that was cut is not shown: a secret there may
// be cut too, so that it is not recognised.
const maskReach = 512

// beginning returns the beginning of a message with its secrets masked. size is that of the
// whole message.
func beginning(b []byte, size int, clean func(string) string) string {
	if size > len(b) {
		b = b[:max(0, len(b)-maskReach)]
	}
	return excerpt.MaskSecrets(clean(string(b)))
}
