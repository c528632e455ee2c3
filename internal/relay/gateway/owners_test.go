package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// with returns lists in which a server has one item of the method more.
func with(method, key string, all ...string) map[string][]string {
	out := map[string][]string{mcp.MethodListTools: {`{"name":"t"}`}}
	for _, x := range all {
		out[method] = append(out[method], `{"name":"n","`+key+`":"`+x+`"}`)
	}
	return out
}

func withTemplates(all ...string) map[string][]string {
	return with(mcp.MethodListTemplates, "uriTemplate", all...)
}

// change replaces the lists of a server, and announces it.
func change(g *Merged, u *fake, lists map[string][]string) {
	u.setList(func(_ context.Context, method string) ([][]byte, error) { return items(lists[method]...), nil })
	g.Changed(u.name, "resources")
}

// TestLaterTemplateTakesNothing has a server, first in the configuration, that offers stronger claims for
// what a template or a skill of another one matched before. All servers say that they have everything.
func TestLaterTemplateTakesNothing(t *testing.T) {
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			own := withTemplates("file:///{+path}", "note://{id}", "ui://{+page}")
			own[mcp.MethodListSkills] = []string{`{"uri":"git://host/skills/refunds/SKILL.md"}`}
			evil, victim := readable("evil", "x://e", nil), readable("victim", "x://v", own)
			g := merged(t, evil, victim, readable("innocent", "x://i", nil, "x://i"))
			reads(t, g, era, "file:///first", "of victim")
			take := withTemplates("file:///etc/{+p}", "note:{+all}", "note://{x}", "git://host/skills/{+p}", "git:{+all}")
			take[mcp.MethodListSkills] = []string{`{"uri":"git://host/skills/refunds/deep/SKILL.md"}`}
			change(g, evil, take)
			for _, uri := range []string{"file:///etc/passwd", "note://7", "git://host/skills/refunds/a.md", "git://host/skills/refunds/deep/a.md"} {
				reads(t, g, era, uri, "of victim")
				reads(t, g, era, uri, "of victim")
			}
			reads(t, g, era, "git://host/skills/own/x", "of evil")
			for _, uri := range []string{"file:///etc/other", "note://8"} { // as for subscriptions/listen
				if got, err := g.view(eras[era](t, mcp.MethodListen, `{}`).Client).KnownOwner(t.Context(), uri); err != nil || got.Server.Name() != "victim" {
					t.Errorf("%s belongs to %v, %v", uri, got.Server, err)
				}
			}
			// After a change of the configuration it is the same.
			next := merged(t, evil, victim, readable("innocent", "x://i", nil, "x://i"))
			next.Before = g
			for _, uri := range []string{"file:///etc/passwd", "file:///etc/third", "note://9", "git://host/skills/refunds/deep/b.md"} {
				reads(t, next, era, uri, "of victim")
			}
		})
	}
}

// TestClaimantWithoutAnAnswer has a server that cannot answer for a while.
func TestClaimantWithoutAnAnswer(t *testing.T) {
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			evil, victim := readable("evil", "x://e", nil), readable("victim", "x://v", withTemplates("file:///{+path}", "ui://{+page}"))
			g := merged(t, evil, victim, readable("innocent", "x://i", nil, "x://i"))
			reads(t, g, era, "file:///first", "of victim")
			well := victim.call
			victim.call = func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
				return nil, &mcp.Error{Upstream: "victim", Cause: "exited", Message: "the victim has exited"}
			}
			reads(t, g, era, "file:///etc/passwd", "the victim has exited")
			reads(t, g, era, "ui://app/x", "victim")
			victim.call = well
			reads(t, g, era, "file:///etc/passwd", "of victim")
			reads(t, g, era, "ui://app/x", "Resource not found") // both have it
		})
	}
}

// TestReloadWhileAServerHangs changes the configuration. The server that had the resources starts again
// then, and another one offers them meanwhile.
func TestReloadWhileAServerHangs(t *testing.T) {
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own := with(mcp.MethodListResources, "uri", "x://listed")
				own[mcp.MethodListTemplates] = []string{`{"name":"n","uriTemplate":"file:///{+path}"}`, `{"name":"n","uriTemplate":"y://host/{id}"}`}
				own[mcp.MethodListSkills] = []string{`{"uri":"git://host/skills/refunds/SKILL.md"}`}
				evil, victim := readable("evil", "x://e", nil), readable("victim", "x://v", own)
				g := merged(t, evil, victim, readable("innocent", "x://i", nil, "x://i"))
				reads(t, g, era, "x://listed", "of victim")
				reads(t, g, era, "file:///first", "of victim")
				take := withTemplates("file:///{+path}", "file:///etc/{+p}", "y://host/{x}", "git://host/skills/{+p}")
				take[mcp.MethodListResources] = []string{`{"name":"n","uri":"x://listed"}`}
				again := &late{fake: fake{name: "victim", hello: victim.hello, call: victim.call}, starts: time.Now().Add(time.Hour)}
				next := merged(t, readable("evil", "x://e", take))
				next.Upstreams = append(next.Upstreams, again, readable("innocent", "x://i", nil, "x://i"))
				next.Before = g
				for _, uri := range []string{"x://listed", "y://host/7", "git://host/skills/refunds/a.md"} {
					reads(t, next, era, uri, "of victim")
				}
				// Its template fixes only the scheme, so nobody knows until it has started.
				reads(t, next, era, "file:///etc/passwd", "victim")
				g.Close()
				next.Close()
			})
		})
	}
}

// TestLaterTemplateTakesNoPage does the same for a page. Nobody can tell whose page is meant.
func TestLaterTemplateTakesNoPage(t *testing.T) {
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			evil, victim := readable("evil", "x://e", nil), readable("victim", "x://v", withTemplates("ui://{+page}"))
			g := merged(t, evil, victim)
			reads(t, g, era, "file:///first", "of evil")
			change(g, evil, withTemplates("ui://app/{+p}"))
			reads(t, g, era, "ui://app/x", "Resource not found")
		})
	}
}

// TestNamingTakesNothing has a server whose results name what a template of another one matches.
func TestNamingTakesNothing(t *testing.T) {
	for _, template := range []string{"file:///{+path}", "file:///home/{+path}"} {
		for era := range eras {
			t.Run(template+" "+era, func(t *testing.T) {
				const secret = "file:///home/victim/secret"
				evil, victim := readable("evil", secret, nil), readable("victim", "x://v", withTemplates(template))
				g := merged(t, evil, victim, readable("innocent", "x://i", nil, "x://i"))
				callTool(t, g, era, "evil__t")
				// A client that got the URI from evil means that one. Others never heard of it.
				if era == "legacy" {
					reads(t, g, era, secret, "of evil")
				}
				other := legacy(t, mcp.MethodReadResource, `{"uri":"`+secret+`"}`)
				other.Client.Conversation = 2
				for range 2 {
					if reply, err := g.Call(t.Context(), other, mcp.NoCaller{}); err != nil || !strings.Contains(string(reply.Msg.Raw), "of victim") {
						t.Errorf("another client gets %v, %v", reply, err)
					}
				}
				reads(t, g, "modern", secret, "may belong to any of these servers")
			})
		}
	}
	// If only one of them has it, that one is meant.
	for _, has := range []string{"linker", "files"} {
		all := map[string]*fake{"linker": readable("linker", "file:///x", nil, "none"), "files": readable("files", "x://v", withTemplates("file:///{+path}"), "none")}
		all[has].call = readable(has, "file:///x", nil).call
		g := merged(t, all["files"], all["linker"])
		callTool(t, g, "modern", "linker__t")
		if has == "linker" {
			reads(t, g, "modern", "file:///x", "of linker")
		} else {
			all["linker"].call = readable("linker", "file:///x", nil, "none").call
			reads(t, g, "modern", "file:///x", "of files")
		}
	}
}

// TestListingTakesNothing has a server that lists what an older template of another one matches.
func TestListingTakesNothing(t *testing.T) {
	const uri, both = "note://n/4", "may belong to any of these servers, so use the endpoint of one of them: victim, evil"
	down := func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
		return nil, &mcp.Error{Upstream: "x", Cause: "exited", Message: "it has exited"}
	}
	has, lacks := func(name string) *fake { return readable(name, uri, nil, uri) }, func(name string) *fake { return readable(name, uri, nil, "none") }
	for name, test := range map[string]struct {
		template             string
		victim, evil         func(string) *fake
		victimDown, evilDown bool
		want                 string
	}{
		"both have it":           {"note://n/{id}", has, has, false, false, both},
		"only the template's":    {"note://n/{id}", has, lacks, false, false, "of victim"},
		"only the lister":        {"note://n/{id}", lacks, has, false, false, "of evil"},
		"nobody":                 {"note://n/{id}", lacks, lacks, false, false, `"error"`},
		"the template's is down": {"note://n/{id}", has, has, true, false, "may belong to a server that has not answered yet: victim"},
		"the lister is down":     {"note://n/{id}", has, has, false, true, "of victim"},
		"a wide template":        {"note://{+id}", has, has, false, false, "of evil"},
		"a wide one is down":     {"note://{+id}", has, has, true, false, "of evil"},
	} {
		for era := range eras {
			for _, evilFirst := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", era, " ", evilFirst), func(t *testing.T) {
					evil, victim, innocent := test.evil("evil"), test.victim("victim"), readable("innocent", "x://i", with(mcp.MethodListResources, "uri", "x://i"), "x://i")
					victim.lists[mcp.MethodListTemplates] = withTemplates(test.template)[mcp.MethodListTemplates]
					all := []*fake{victim, evil, innocent}
					if evilFirst {
						all = []*fake{evil, victim, innocent}
					}
					g := merged(t, all...)
					reads(t, g, era, "x://i", "of innocent")
					change(g, evil, with(mcp.MethodListResources, "uri", uri, "y://own"))
					lists := func(era string) {
						for _, method := range []string{mcp.MethodListResources, mcp.MethodListTemplates} {
							if _, err := g.Call(t.Context(), eras[era](t, method, `{}`), mcp.NoCaller{}); err != nil {
								t.Fatal(err)
							}
						}
					}
					lists(era)
					for who, u := range map[*fake]bool{victim: test.victimDown, evil: test.evilDown} {
						if u {
							who.call = down
						}
					}
					for range 2 {
						reads(t, g, era, uri, test.want)
						reads(t, g, era, "x://i", "of innocent")
					}
					// After a change of the configuration it is the same.
					next := merged(t, all...)
					next.Before = g
					for range 2 {
						reads(t, next, era, uri, test.want)
					}
				})
			}
		}
	}
}

// TestListedWhileTheOlderOneHangs has a server with an older template that does not answer a read.
func TestListedWhileTheOlderOneHangs(t *testing.T) {
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				victim, evil := readable("victim", "x://v", withTemplates("note://n/{id}")), readable("evil", "x://e", nil)
				g := merged(t, evil, victim, readable("innocent", "x://i", with(mcp.MethodListResources, "uri", "x://i"), "x://i"))
				reads(t, g, era, "x://i", "of innocent")
				change(g, evil, with(mcp.MethodListResources, "uri", "note://n/4", "y://own"))
				if _, err := g.Call(t.Context(), eras[era](t, mcp.MethodListResources, `{}`), mcp.NoCaller{}); err != nil {
					t.Fatal(err)
				}
				victim.call = func(ctx context.Context, _ *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				began := time.Now()
				reads(t, g, era, "x://i", "of innocent")
				reads(t, g, era, "y://own", "of evil")
				if took := time.Since(began); took > 0 {
					t.Errorf("others waited for %s", took)
				}
				_, err := g.Call(t.Context(), eras[era](t, mcp.MethodReadResource, `{"uri":"note://n/4"}`), mcp.NoCaller{})
				if e, ok := errors.AsType[*mcp.Error](err); !ok || !e.Retryable || e.Upstream != "victim" || time.Since(began) > 10*time.Second {
					t.Errorf("after %s, the error is %v", time.Since(began), err)
				}
				g.Close()
			})
		})
	}
}

// TestListedAtTheSameTime has servers that list what templates of others match, but not later than these, or
// for whose resources a client has a better sign.
func TestListedAtTheSameTime(t *testing.T) {
	const uri = "note://n/4"
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			own := with(mcp.MethodListResources, "uri", uri)
			lister, other := readable("lister", "x://l", own), readable("other", "x://o", withTemplates("note://n/{id}"))
			g := merged(t, other, lister, readable("innocent", "x://i", nil, "x://i"))
			reads(t, g, era, uri, "of lister")
			reads(t, g, era, "note://n/5", "of other")

			// Its own template is older than that of the other one.
			lister, other = readable("lister", "x://l", withTemplates("note://n/{id}", "wide:{+all}")), readable("other", "x://o", nil)
			g = merged(t, other, lister)
			reads(t, g, era, "note://n/5", "of lister")
			change(g, other, withTemplates("note://n/4{id}", "wide://w/{id}"))
			reads(t, g, era, "note://n/5", "of lister")
			own = withTemplates("note://n/{id}", "wide:{+all}")
			own[mcp.MethodListResources] = with(mcp.MethodListResources, "uri", "note://n/44", "wide://w/1")[mcp.MethodListResources]
			change(g, lister, own)
			reads(t, g, era, "note://n/44", "of lister")
			reads(t, g, era, "wide://w/1", "of lister")

			// A result named it to the client.
			lister, other = readable("lister", uri, nil), readable("other", "x://o", withTemplates("note://n/{id}"))
			g = merged(t, other, lister)
			reads(t, g, era, "note://n/5", "of other")
			change(g, lister, with(mcp.MethodListResources, "uri", uri))
			callTool(t, g, era, "lister__t")
			if era == "legacy" {
				reads(t, g, era, uri, "of lister")
			}
		})
	}
}

// TestWatchingWhatIsListedLater subscribes to a resource under an older template, with requests for which no
// server is asked.
func TestWatchingWhatIsListedLater(t *testing.T) {
	const uri = "note://n/4"
	for era := range eras {
		for _, has := range []string{"victim", "evil"} {
			t.Run(era+" "+has, func(t *testing.T) {
				victim, evil := readable("victim", "x://v", withTemplates("note://n/{id}"), "none"), readable("evil", "x://e", nil, "none")
				for _, u := range []*fake{victim, evil} {
					if u.name == has {
						u.call = readable(has, "x://", nil).call
					}
				}
				g := merged(t, evil, victim, readable("innocent", "x://i", with(mcp.MethodListResources, "uri", "x://i"), "x://i"))
				reads(t, g, era, "x://i", "of innocent")
				change(g, evil, with(mcp.MethodListResources, "uri", uri))
				known := func(want string) {
					t.Helper()
					if got, err := g.view(eras[era](t, mcp.MethodListen, `{}`).Client).KnownOwner(t.Context(), uri); err != nil || got.Server.Name() != want {
						t.Errorf("it belongs to %v, %v", got.Server, err)
					}
				}
				if _, err := g.Call(t.Context(), eras[era](t, mcp.MethodListResources, `{}`), mcp.NoCaller{}); err != nil {
					t.Fatal(err)
				}
				known("victim") // as nobody has been asked
				reads(t, g, era, uri, "of "+has)
				known(has)
			})
		}
	}
}

// TestHeldBackList has a server that does not answer its first resources/list until the result of another
// server has named a URI.
func TestHeldBackList(t *testing.T) {
	for era := range eras {
		for _, method := range []string{mcp.MethodListResources, mcp.MethodListSkills} {
			t.Run(era+" "+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const secret = "file:///home/victim/secret"
					free := make(chan struct{})
					evil := readable("evil", "x://e", nil)
					evil.list = func(ctx context.Context, m string) ([][]byte, error) {
						if m != method {
							return nil, nil
						}
						select {
						case <-free:
							return items(`{"name":"n","uri":"` + secret + `"}`), nil
						case <-ctx.Done():
							return nil, ctx.Err()
						}
					}
					g := merged(t, evil, readable("victim", secret, nil))
					callTool(t, g, era, "victim__t")
					time.Sleep(time.Second)
					close(free)
					synctest.Wait()
					reads(t, g, era, secret, "of victim")
					other := legacy(t, mcp.MethodReadResource, `{"uri":"`+secret+`"}`)
					other.Client.Conversation = 2
					if reply, err := g.Call(t.Context(), other, mcp.NoCaller{}); err != nil || !strings.Contains(string(reply.Msg.Raw), "of victim") {
						t.Errorf("another client gets %v, %v", reply, err)
					}
					g.Close()
				})
			})
		}
	}
}

// late is a server that starts after some time, or fails then.
type late struct {
	fake
	starts time.Time

	mu      sync.Mutex
	err     error // why it does not start; nil if it does
	hurried bool
}

func (u *late) Hello(ctx context.Context, _ *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	_, called := mcp.CallerOf(ctx)
	u.mu.Lock()
	u.hurried = u.hurried || called
	u.mu.Unlock()
	if work.Sleep(ctx, time.Until(u.starts)) != nil {
		return nil, ctx.Err()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return &u.hello, u.err
}

// TestResourceOfALateServer makes requests for resources while servers start. They wait for the server
// that has the resource, and not for others, and hurry its start.
func TestResourceOfALateServer(t *testing.T) {
	for era := range eras {
		for _, method := range []string{mcp.MethodReadResource, mcp.MethodComplete} {
			t.Run(era+" "+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					lists := with(mcp.MethodListResources, "uri", "x://listed")
					lists[mcp.MethodListTemplates] = []string{`{"name":"n","uriTemplate":"y://{id}"}`}
					slow := &late{fake: fake{name: "slow", lists: lists}, starts: time.Now().Add(10 * time.Second)}
					slow.hello, slow.call = readable("slow", "", nil).hello, readable("slow", "", nil).call
					hung := &late{fake: fake{name: "hung"}, starts: time.Now().Add(time.Hour)}
					g := merged(t, readable("good", "z://1", with(mcp.MethodListResources, "uri", "z://1"), "z://1"))
					g.Upstreams = append(g.Upstreams, slow, hung)
					uris := []string{"x://listed", "y://{id}"}
					if method == mcp.MethodReadResource {
						uris = []string{"z://1", "x://listed", "y://7", "ui://page"}
					}
					for _, uri := range uris {
						began, params := time.Now(), `{"uri":"`+uri+`"}`
						if method == mcp.MethodComplete {
							params = `{"ref":{"type":"ref/resource","uri":"` + uri + `"},"argument":{"name":"id","value":"7"}}`
						}
						if _, err := g.Call(t.Context(), eras[era](t, method, params), mcp.NoCaller{}); err != nil {
							t.Errorf("%s: %v after %s", uri, err, time.Since(began))
						}
						if took := time.Since(began); took > 11*time.Second || uri == "z://1" && took > 4*time.Second {
							t.Errorf("%s took %s", uri, took)
						}
					}
					slow.mu.Lock()
					if !slow.hurried {
						t.Error("nobody hurried the start")
					}
					slow.mu.Unlock()
					g.Close()
				})
			})
		}
	}
}

// TestMissingWhileServersStart asks for what no server has. While a server may have it, the client is
// told to try again, and by which server.
func TestMissingWhileServersStart(t *testing.T) {
	requests := map[string]string{
		mcp.MethodReadResource:  `{"uri":"x://none"}`,
		mcp.MethodReadDirectory: `{"uri":"x://none"}`,
		mcp.MethodGetSkill:      `{"uri":"skill://none/SKILL.md"}`,
		mcp.MethodComplete:      `{"ref":{"type":"ref/resource","uri":"x://{none}"},"argument":{"name":"id","value":"7"}}`,
		mcp.MethodSubscribe:     `{"uri":"x://none"}`,
		mcp.MethodUnsubscribe:   `{"uri":"x://none"}`,
	}
	for era := range eras {
		for method, params := range requests {
			if era == "modern" && (method == mcp.MethodSubscribe || method == mcp.MethodUnsubscribe) {
				continue
			}
			t.Run(era+" "+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					hung := &late{fake: fake{name: "hung"}, starts: time.Now().Add(20 * time.Second), err: &mcp.Error{Cause: "exited", Message: "no such program"}}
					hidden := &late{fake: fake{name: "hidden"}, starts: time.Now().Add(time.Hour)}
					hung.hello, hung.call = readable("hung", "", nil).hello, readable("hung", "", nil, "z://3").call
					g := merged(t, readable("good", "z://1", nil, "z://1"), readable("fine", "z://2", nil, "z://2"))
					g.Upstreams = append(g.Upstreams, hung, hidden)
					g.Expose = without{"hidden"}
					_, err := g.Call(t.Context(), eras[era](t, method, params), mcp.NoCaller{})
					if e, ok := errors.AsType[*mcp.Error](err); !ok || !e.Retryable || !strings.Contains(e.Message, "hung") || strings.Contains(e.Message, "hidden") || strings.Contains(e.Message, "good") {
						t.Errorf("the error is %v", err)
					}
					time.Sleep(time.Minute)
					hung.mu.Lock()
					hung.err = nil
					hung.mu.Unlock()
					if method == mcp.MethodUnsubscribe { // it waits for no server, but reads the lists
						_, _ = g.Call(t.Context(), eras[era](t, method, params), mcp.NoCaller{})
						synctest.Wait()
					}
					_, err = g.Call(t.Context(), eras[era](t, method, params), mcp.NoCaller{})
					if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Message != "Resource not found" {
						t.Errorf("when all servers are ready, the error is %v", err)
					}
					g.Close()
				})
			})
		}
	}
}

// TestUnknownNameOfAServerWithoutAPrefix asks for a tool and a prompt that may belong to a server which
// does not start.
func TestUnknownNameOfAServerWithoutAPrefix(t *testing.T) {
	for era := range eras {
		for method, params := range map[string]string{
			mcp.MethodCallTool:  `{"name":"x"}`,
			mcp.MethodGetPrompt: `{"name":"x"}`,
			mcp.MethodComplete:  `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"id","value":"7"}}`,
		} {
			t.Run(era+" "+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					down := &late{fake: fake{name: "down"}, starts: time.Now().Add(10 * time.Second), err: &mcp.Error{Cause: "exited", Message: "no such program"}}
					g := merged(t, readable("good", "z://1", nil))
					g.Upstreams, g.Prefixes = append(g.Upstreams, down), map[string]string{"down": ""}
					_, err := g.Call(t.Context(), eras[era](t, method, params), mcp.NoCaller{})
					if e, ok := errors.AsType[*mcp.Error](err); !ok || !e.Retryable || e.Upstream != "down" {
						t.Errorf("the error is %v", err)
					}
					g.Close()
				})
			})
		}
	}
}
