package authserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// proofs are how clients can authenticate at the token endpoint. Some clients use their document only if none is
// among them.
var proofs = []string{proofNone, proofPost, proofBasic, proofKey}

// token answers a token request (RFC 6749 §4.1.3 and §6, with PKCE and RFC 8707 §2.2).
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Pragma", "no-cache")
	form, c, err := s.posted(w, r)
	if err != nil {
		s.sorry(w, r, err)
		return
	}
	var got access.Issued
	switch form.Get("grant_type") {
	case "authorization_code":
		got, err = s.o.Ledger.Redeem(r.Context(), form.Get("code"), s.fitsCode(r, c, form))
	case "refresh_token":
		got, err = s.o.Ledger.Refresh(r.Context(), form.Get("refresh_token"), s.fits(r, c, form))
	case "":
		err = bad("invalid_request", "the request has no grant_type")
	default:
		err = bad("unsupported_grant_type", "use authorization_code or refresh_token")
	}
	switch {
	case errors.Is(err, access.ErrReplay):
		s.o.Log.Warn("a code or a refresh token was used again, so what came of it was revoked", "client", c.ID)
		err = bad("invalid_grant", access.ErrReplay.Error())
	case errors.Is(err, access.ErrGrant):
		err = bad("invalid_grant", access.ErrGrant.Error())
	}
	if err != nil {
		s.sorry(w, r, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"access_token": got.Access, "token_type": "Bearer", "expires_in": int(got.Life / time.Second), "refresh_token": got.Refresh, "scope": strings.Join(got.Terms.Scopes, " "),
	})
}

// fits says whether a client may use a grant for what it asks.
func (s *Server) fits(r *http.Request, c *Client, form url.Values) access.Fits {
	return func(client string, t *access.Terms) error {
		if client != c.ID {
			return bad("invalid_grant", "this belongs to another client")
		}
		if t.Proof == proofKey && c.Proof != proofKey {
			return &problem{"temporarily_unavailable", "the client's document cannot be fetched, so its key is not known; try again later", http.StatusServiceUnavailable}
		}
		if asked := form.Get("resource"); asked != "" { // some clients leave it out, and mean the same as before
			if path, ok := s.resourcePath(s.Issuer(r), asked); !ok || !access.Covers(t.Resource, path) {
				return bad("invalid_target", "the grant is not for this resource")
			}
		}
		return nil
	}
}

// fitsCode says the same of a code.
func (s *Server) fitsCode(r *http.Request, c *Client, form url.Values) access.Fits {
	fits := s.fits(r, c, form)
	return func(client string, t *access.Terms) error {
		if err := fits(client, t); err != nil {
			return err
		}
		if uri := form.Get("redirect_uri"); uri != "" && uri != t.Redirect { // OAuth 2.1 §4.1.3 lets clients leave it out
			return bad("invalid_grant", "the code was sent to another redirect_uri")
		}
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(t.Challenge)) != 1 {
			return bad("invalid_grant", "the code_verifier does not belong to the code_challenge")
		}
		return nil
	}
}

// revoke answers a revocation request (RFC 7009). Who has lost one token of a grant has lost all.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	form, c, err := s.posted(w, r)
	switch {
	case err != nil:
	case form.Get("token") == "":
		err = bad("invalid_request", "the request has no token")
	default:
		err = s.o.Ledger.Revoke(r.Context(), c.ID, form.Get("token"))
	}
	if err != nil {
		s.sorry(w, r, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

// posted reads the form of a client, and finds out which client it is.
func (s *Server) posted(w http.ResponseWriter, r *http.Request) (form url.Values, c *Client, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" {
		return nil, nil, bad("invalid_request", "send a form, with Content-Type: application/x-www-form-urlencoded")
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	if err := r.ParseForm(); err != nil {
		return nil, nil, bad("invalid_request", "the form is malformed or too long")
	}
	form = r.PostForm // never the query: logs keep it
	for _, all := range form {
		if len(all) > 1 {
			return nil, nil, bad("invalid_request", "a parameter occurs twice")
		}
	}
	c, err = s.authenticate(r, form)
	return form, c, err
}

// authenticate returns the client that has sent a form, if it has proved who it is.
func (s *Server) authenticate(r *http.Request, form url.Values) (*Client, error) {
	id, secret, proof := form.Get("client_id"), form.Get("client_secret"), proofNone
	if secret != "" {
		proof = proofPost
	}
	if user, password, ok := r.BasicAuth(); ok {
		a, err1 := url.QueryUnescape(user) // RFC 6749 §2.3.1
		b, err2 := url.QueryUnescape(password)
		if err1 != nil || err2 != nil || secret != "" || id != "" && id != a {
			return nil, bad("invalid_request", "the client authenticates in two ways, or its credentials are malformed")
		}
		if id, secret = a, b; b != "" {
			proof = proofBasic
		}
	}
	if id == "" { // an assertion says whose it is (RFC 7521 §4.2)
		if t, err := jwt.ParseSigned(form.Get("client_assertion"), algorithms); err == nil {
			var x jwt.Claims
			if t.UnsafeClaimsWithoutVerification(&x) == nil {
				id = x.Subject
			}
		}
	}
	if id == "" {
		return nil, unknownClient("the request has no client_id")
	}
	c, err := s.client(r, id)
	var doc *documentError
	switch {
	case errors.As(err, &doc) && doc.weather:
		// Nothing is known about it, so what people have allowed it goes on. Nobody new is sent there.
		c, err = &Client{ID: id, Proof: proofNone}, nil
	case errors.As(err, &doc), errors.Is(err, errUnknown), errors.Is(err, errRefused):
		return nil, unknownClient(err.Error())
	}
	if err != nil {
		return nil, err
	}
	if c.Proof == proofKey {
		return c, s.signed(r, c, form.Get("client_assertion_type"), form.Get("client_assertion"))
	}
	if c.Secret == nil {
		return c, nil // a secret or an assertion that we have no use for says nothing
	}
	key, err := s.o.Ledger.Key(r.Context(), "clients")
	switch {
	case err != nil:
		return nil, err
	case proof == proofNone || !hmac.Equal(mac(key, "the secret of a client", c.ID, secret), c.Secret):
		return nil, unknownClient("the client's secret is missing or wrong")
	}
	return c, nil
}

// unknownClient is the error upon which a client registers anew.
func unknownClient(text string) *problem {
	return &problem{"invalid_client", text, http.StatusUnauthorized}
}
