package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// Enterprise gets a token for a person who has signed in to their organisation's identity provider, without
// asking them again: the provider exchanges their ID token for an assertion that is good at this issuer alone
// (ID-JAG), and the issuer takes that as a grant (the extension Enterprise-Managed Authorization, §4 and §5). idp
// is the provider with our client there.
func (e *Endpoint) Enterprise(ctx context.Context, idp *Endpoint, id secret.Text, resource string, scopes []string) (Token, error) {
	jag, err := idp.Exchange(ctx, Exchange{
		Subject: id, SubjectType: TypeID, Requested: TypeIDJAG, Audience: e.Issuer.Issuer, Resource: resource, Scopes: scopes,
	})
	if err != nil {
		return Token{}, err
	}
	return e.Assertion(ctx, jag.Access, resource, scopes)
}

// ReadAssertion reads the assertion of a workload, or the token of whoever it acts for: from a file, such as a
// projected token of Kubernetes, or from an http or https URL. It is read again for each use, because platforms
// replace it long before it expires. The operator has configured the place, so d may reach this machine.
func ReadAssertion(ctx context.Context, d Doer, place string) (secret.Text, error) {
	bad := func(why string) (secret.Text, error) {
		return secret.Text{}, fault(RequestInvalid, "", "the assertion at %s can't be read: %s", show(place), why).
			next("check the path or URL in signIn.assertion")
	}
	var raw []byte
	if strings.HasPrefix(place, "https://") || strings.HasPrefix(place, "http://") {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
		if err != nil {
			return bad("it is not a URL")
		}
		a, err := d.Do(ctx, req)
		switch {
		case err != nil:
			return secret.Text{}, undone(place, RequestInvalid, err)
		case isWeather(a.Status):
			return secret.Text{}, trouble(place, a)
		case a.Status != http.StatusOK || isMarkup(a):
			return bad(fmt.Sprintf("it was answered with HTTP %d", a.Status))
		}
		raw = a.Body
	} else {
		f, err := os.Open(place)
		if err != nil {
			var path *os.PathError
			if errors.As(err, &path) {
				err = path.Err // the sentence has the path
			}
			return bad(err.Error())
		}
		defer f.Close()
		if raw, err = io.ReadAll(io.LimitReader(f, maxToken+1)); err != nil {
			return bad("it is not a file that can be read")
		}
	}
	text := strings.TrimSpace(string(raw))
	if !isHeader(text) {
		return bad("it holds no token")
	}
	return secret.New(text), nil
}
