package admin

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"sort"
	"strconv"
)

// Limits of a page.
const (
	usualPage = 50
	mostPage  = 500
	maxCursor = 2 << 10 // bytes of a cursor
)

// part is one page of a list.
type part[T any] struct {
	items []T
	next  string // the cursor of the next page; "" on the last page
}

// pageOf returns the page of a list that a request selects. key returns the key of an item. Each key
// must be unique, and the list must be sorted by key. A cursor is the encoded key of the last item
// of a page, so the cursor stays valid when the list changes.
func pageOf[T any](r *http.Request, all []T, key func(*T) string) (p part[T], bad *Problem) {
	query := r.URL.Query()
	limit, from := usualPage, 0
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostPage {
			return p, badParameter("limit", fmt.Sprintf("Write a number from 1 to %d.", mostPage))
		}
		limit = n
	}
	if cursor := query.Get("cursor"); cursor != "" {
		last, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || len(cursor) > maxCursor {
			return p, badParameter("cursor", `Use the value of "next" in an earlier answer.`)
		}
		from = sort.Search(len(all), func(i int) bool { return key(&all[i]) > string(last) })
	}
	to := min(from+limit, len(all))
	p.items = append(make([]T, 0, to-from), all[from:to]...)
	if to < len(all) {
		p.next = base64.RawURLEncoding.EncodeToString([]byte(key(&all[to-1])))
	}
	return p, nil
}
