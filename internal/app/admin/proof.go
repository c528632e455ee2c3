package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
)

// The headers of a request to /healthz that asks `dragoman serve` who it is, and of the answer.
const (
	ChallengeHeader = "Dragoman-Challenge"
	ProofHeader     = "Dragoman-Proof"
)

// maxChallenge is the maximum length of a challenge in bytes.
const maxChallenge = 128

// Proof returns what a process with the given key answers to a challenge at an address. Only this
// process and its user can make it. So a command learns that the program at an address is the one
// whose key it has, before it sends the key there: after a crash, any program can take over the
// address.
//
// The address is part of the proof, because the program at another address could have forwarded the
// challenge. "" means that the address is not valid.
func Proof(key, address, challenge string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return ""
	}
	at = netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write([]byte("dragoman serve\n" + at.String() + "\n" + challenge)) // never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Proves returns the key that the proof shows the program at the address to have. It returns "" if
// the program has none of the keys.
func Proves(keys []string, address, challenge, proof string) string {
	for _, key := range keys {
		if want := Proof(key, address, challenge); key != "" && want != "" && hmac.Equal([]byte(want), []byte(proof)) {
			return key
		}
	}
	return ""
}

// Challenge returns a new challenge, for one request.
func Challenge() string { return secret() }

// prove answers the challenge of a request, if it has one.
func (a *Access) prove(w http.ResponseWriter, r *http.Request) {
	challenge := r.Header.Get(ChallengeHeader)
	if at := localAddress(r); at != "" && challenge != "" && len(challenge) <= maxChallenge {
		w.Header().Set(ProofHeader, Proof(a.key, at, challenge))
	}
}

// localAddress returns the address at which a request has reached this process, or "".
func localAddress(r *http.Request) string {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return at.String()
	}
	return ""
}

// Flag returns the flag with which the commands of the user find this process, with a space in front.
// r is a request to this process.
func Flag(r *http.Request) string {
	at := localAddress(r)
	if at == "" {
		return ""
	}
	return " --listen " + at
}
