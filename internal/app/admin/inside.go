package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
)

// Invoke calls a route of the API within the process and returns the answer of the route as a value
// of type T. It is for the pages of the console. An API client gets the same value as JSON. target
// is the path below /api/v1 with its query. The caller must escape names in the path with PathName.
// If body is not nil, the route gets it as JSON. Invoke does not check access: the caller must do
// that. Invoke does not support routes that answer with a stream or with content other than JSON.
// bad is nil after success.
func Invoke[T any](ctx context.Context, a *API, method, target string, body any) (answer T, bad *Problem) {
	var in bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&in).Encode(body); err != nil {
			return answer, badBody(err.Error())
		}
	}
	x := &inside{header: http.Header{}, status: http.StatusOK}
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+apiRoot+target, &in)
	if err != nil {
		return answer, &Problem{Type: "not-found", Title: "Not found", Status: http.StatusNotFound, Detail: err.Error()}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	a.within().ServeHTTP(x, r)
	switch {
	case x.bad != nil:
		return answer, x.bad
	case x.answer != nil:
		answer, ok := x.answer.(T)
		if !ok {
			return answer, &Problem{Type: "internal", Title: "The answer of the route has an unexpected type", Status: http.StatusInternalServerError}
		}
		return answer, nil
	case x.status >= 300:
		bad = &Problem{}
		if json.Unmarshal(x.body.Bytes(), bad) != nil || bad.Title == "" {
			bad = &Problem{Type: "not-found", Title: "Not found", Status: x.status}
		}
		return answer, bad
	}
	if err := json.Unmarshal(x.body.Bytes(), &answer); err != nil {
		return answer, &Problem{Type: "internal", Title: "The answer of the route has an unexpected type", Status: http.StatusInternalServerError, Detail: err.Error()}
	}
	return answer, nil
}

// inside holds the answer of a route that Invoke calls. It is an http.ResponseWriter, because some
// routes write their answer instead of returning it.
type inside struct {
	answer any
	bad    *Problem

	header http.Header
	status int
	body   bytes.Buffer
}

func (x *inside) Header() http.Header         { return x.header }
func (x *inside) WriteHeader(status int)      { x.status = status }
func (x *inside) Write(b []byte) (int, error) { return x.body.Write(b) }

// innerMux returns the mux that Invoke uses.
func (a *API) innerMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, x := range routes() {
		if len(x.events) > 0 || x.kind != "" {
			continue
		}
		mux.HandleFunc(x.method+" "+apiRoot+x.path, func(w http.ResponseWriter, r *http.Request) {
			ReadPathNames(r)
			if x.serve != nil {
				x.serve(a, w, r)
				return
			}
			to, ok := w.(*inside)
			if !ok {
				return // cannot happen, because only Invoke uses this mux
			}
			if to.answer, to.bad = x.read(a, r); to.bad != nil {
				out := *to.bad
				out.Instance, to.bad = r.URL.Path, &out
			}
		})
	}
	return mux
}
