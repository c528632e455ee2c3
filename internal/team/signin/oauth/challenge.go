package oauth

// Challenge is one challenge of a WWW-Authenticate header (RFC 9110 §11.6.1) whose scheme is Bearer (RFC
// 6750 §3) or DPoP (RFC 9449 §7.1). Parameters that we don't know are left out.
type Challenge struct {
	Scheme           string   // "Bearer" or "DPoP", spelled so
	ResourceMetadata string   // RFC 9728 §5.1; "" if there is none
	Scopes           []string // what the request needed; nil if the challenge doesn't say
	Error            string   // such as invalid_token, insufficient_scope or use_dpop_nonce
	Description      string   // for people; the server's words, not yet safe to print
	Algs             []string // DPoP alone: the algorithms that proofs may use
}

// Challenges reads the challenges of an answer, one per element as transport.StatusError.Challenges gives
// them. Other schemes and malformed challenges are left out, and never take others with them.
func Challenges(all []string) []Challenge { return nil }

// Best returns the challenge to follow: the first that names its metadata, else the first with an error,
// else the first. ok is false if there is none.
func Best(all []Challenge) (c Challenge, ok bool) { return Challenge{}, false }
