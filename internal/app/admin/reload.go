package admin

import (
	"context"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// Reloaded is the response of /reload.
type Reloaded struct {
	File string `json:"file" doc:"the full path of the configuration file"`
	What string `json:"what" doc:"what has changed, in sentences"`
}

var reloadRoute = route{
	method: http.MethodPost, path: "/reload", process: true, least: identity.Admin, name: "reload",
	summary: "Read the configuration file now, and use it if it's valid; without this, we notice by ourselves that the file has changed",
	answer:  Reloaded{}, problems: []int{409}, read: (*API).serveReload,
}

// serveReload answers /reload.
func (a *draftAPI) serveReload(r *http.Request) (any, *Problem) {
	if a.reload == nil {
		return nil, &Problem{Type: "no-file", Title: "There is no configuration file", Status: http.StatusConflict, Detail: "This Dragoman uses no configuration file, so there is nothing to read again."}
	}
	ctx, stop := context.WithTimeout(r.Context(), reloadLimit)
	defer stop()
	what, err := a.reload(ctx)
	if err != nil {
		return nil, &Problem{
			Type: "refused", Title: "The configuration file was refused, and the current configuration stays in use",
			Status: http.StatusConflict, Detail: sentence(err.Error(), ""),
		}
	}
	return Reloaded{File: a.config, What: what}, nil
}
