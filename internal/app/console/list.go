package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// pageRows is the maximum number of rows on one page of a table.
const pageRows = 50

// pager says which part of a table a page shows. Prev and Next are the links to the neighboring
// pages, or "".
type pager struct {
	Pages, From, To, Total int
	Prev, Next             string
}

// paged returns the rows on the page that the query q selects.
func paged[T any](all []T, q url.Values) (rows []T, p pager) {
	p = pagerOf(len(all), q)
	if p.Total == 0 {
		return nil, p
	}
	return all[p.From-1 : p.To], p
}

// pagerOf returns the pager for the page that the query q selects. total is the number of rows on
// all pages.
func pagerOf(total int, q url.Values) pager {
	p := pager{Total: total, Pages: (total + pageRows - 1) / pageRows}
	if total == 0 {
		return p
	}
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil {
		page = 1
	}
	page = min(max(page, 1), p.Pages)
	p.From, p.To = (page-1)*pageRows+1, min(page*pageRows, total)
	to := func(n int) string {
		if n == 1 {
			return queryWith(q, "", "")
		}
		return queryWith(q, "", "") + "&page=" + strconv.Itoa(n)
	}
	if page > 1 {
		p.Prev = to(page - 1)
	}
	if page < p.Pages {
		p.Next = to(page + 1)
	}
	return p
}

// sorted sorts rows by the column that the query q selects. For example, "calls" sorts by the
// column calls, and "-calls" sorts in descending order. usual is used if the query selects no
// column. columns has the compare function of each column. Equal rows keep their order.
func sorted[T any](rows []T, q url.Values, usual string, columns map[string]func(a, b T) int) {
	key := cmp.Or(q.Get("sort"), usual)
	name, descending := strings.CutPrefix(key, "-")
	order := columns[name]
	if order == nil {
		return
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		if descending {
			return order(b, a)
		}
		return order(a, b)
	})
}

// choice is an entry in the menu of a filter.
type choice struct {
	Value, Title string
	Selected     bool
}

// choices returns the entries of the menu of a filter. now is the selected value. all is the title
// of the first entry, which disables the filter. pairs contains the value and the title of each
// other entry.
func choices(now, all string, pairs ...string) []choice {
	out := []choice{{"", all, now == ""}}
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, choice{pairs[i], pairs[i+1], now == pairs[i]})
	}
	return out
}

// matches reports whether each word of the search q occurs in at least one of the texts. It ignores
// case.
func matches(q string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, " "))
	for _, word := range strings.Fields(strings.ToLower(q)) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return true
}
