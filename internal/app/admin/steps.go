package admin

import (
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
)

// HandshakeStep is one step of a handshake. Known secrets in the step are masked.
type HandshakeStep struct {
	AtMS   int64  `json:"atMs" doc:"milliseconds since the beginning of the handshake"`
	Sent   string `json:"sent,omitempty" doc:"the method and revision of the message that we sent; left out if the server sent one without a request"`
	Got    string `json:"got" doc:"what followed: an answer, a status, a timeout, or the end of the connection"`
	Reason string `json:"reason" doc:"what we make of the answer"`
	// Params and Answer contain only the first bytes of a long message. ParamsBytes and AnswerBytes
	// are the full sizes.
	Params      string `json:"params,omitempty" doc:"the beginning of the params that were sent"`
	Answer      string `json:"answer,omitempty" doc:"the beginning of the answer, as the server sent it"`
	ParamsBytes int    `json:"paramsBytes" doc:"the total length of the params in bytes"`
	AnswerBytes int    `json:"answerBytes" doc:"the total length of the answer in bytes"`
}

// Steps returns the steps of the last handshake with a server, with the messages. It returns nil
// for an unknown server.
func (a *serverAPI) Steps(server string) (out []HandshakeStep) {
	for _, u := range a.project.Report().Servers {
		if u.Name != server {
			continue
		}
		out = stepsOf(u.Steps, u.Clean)
	}
	return out
}

// stepsOf returns the steps of a handshake. clean masks the secrets of the server.
func stepsOf(all handshake.Trace, clean func(string) string) (out []HandshakeStep) {
	for _, x := range all {
		out = append(out, HandshakeStep{
			AtMS: x.At.Milliseconds(), Sent: clean(x.Sent), Got: clean(x.Got), Reason: clean(x.Reason),
			Params: excerpt.MaskHead(x.Params, x.ParamsSize, clean), ParamsBytes: x.ParamsSize,
			Answer: excerpt.MaskHead(x.Answer, x.AnswerSize, clean), AnswerBytes: x.AnswerSize,
		})
	}
	return out
}
