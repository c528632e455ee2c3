package fake

// usual is the revision in which a fault is played unless another is asked for.
const usual = "2025-06-18"

// faultServers are strict servers with one thing wrong.
func faultServers() []Profile {
	return []Profile{{
		Name: "never-answers", Kind: Fault, Side: ServerSide, Settings: revised(usual),
		About: "A server that reads everything and answers nothing.",
		server: func(s *settings) (*part, error) {
			return twistedPart(s, twist{hear: func(*heard, func()) {}})
		},
	}}
}
