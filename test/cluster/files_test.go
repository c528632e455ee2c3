package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

const manifests = root + "/examples/cluster/kubernetes"

// kustomization is a file of kustomize, as far as ours use it. (Its own module would bring many others.)
type kustomization struct {
	APIVersion         string   `json:"apiVersion"`
	Kind               string   `json:"kind"`
	Namespace          string   `json:"namespace"`
	Resources          []string `json:"resources"`
	ConfigMapGenerator []struct {
		Name  string   `json:"name"`
		Files []string `json:"files"`
	} `json:"configMapGenerator"`
}

// TestTC36Kubernetes checks the manifests against the types of Kubernetes' API, which know each field, and each variant
// against itself: what a pod refers to is there.
func TestTC36Kubernetes(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"deployment", "statefulset"} {
		t.Run(variant, func(t *testing.T) {
			all := &objects{t: t, configs: map[string][]string{}}
			all.read(variant)
			if all.pod == nil || len(all.budgets) != 1 || len(all.services) == 0 {
				t.Fatalf("there is no pod, budget or service: %+v", all)
			}
			checkPod(t, all)
		})
	}
}

// objects are what kustomize would apply.
type objects struct {
	t        *testing.T
	pod      *core.PodTemplateSpec
	replicas int32
	configs  map[string][]string // the files of each ConfigMap
	secrets  []core.Secret
	services []core.Service
	budgets  []policy.PodDisruptionBudget
}

func (o *objects) read(folder string) {
	o.t.Helper()
	var k kustomization
	path := filepath.Join(manifests, folder)
	o.decode(o.file(filepath.Join(path, "kustomization.yaml")), &k)
	if k.Kind != "Kustomization" || k.APIVersion != "kustomize.config.k8s.io/v1beta1" {
		o.t.Errorf("%s: %+v", folder, k)
	}
	for _, c := range k.ConfigMapGenerator {
		o.configs[c.Name] = c.Files
		for _, f := range c.Files {
			o.file(filepath.Join(path, f))
		}
	}
	for _, name := range k.Resources {
		if filepath.Ext(name) == "" {
			o.read(filepath.Join(folder, name))
			continue
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(o.file(filepath.Join(path, name)))))
		for {
			b, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				o.t.Fatal(err)
			}
			o.object(name, b)
		}
	}
}

// object decodes a manifest. A field that the API doesn't know is an error.
func (o *objects) object(name string, b []byte) {
	o.t.Helper()
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := strict.Unmarshal(b, &kind); err != nil {
		o.t.Fatal(err)
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Namespace":
		o.decode(b, new(core.Namespace))
	case "v1 Secret":
		o.secrets = append(o.secrets, core.Secret{})
		o.decode(b, &o.secrets[len(o.secrets)-1])
	case "v1 Service":
		o.services = append(o.services, core.Service{})
		o.decode(b, &o.services[len(o.services)-1])
	case "policy/v1 PodDisruptionBudget":
		o.budgets = append(o.budgets, policy.PodDisruptionBudget{})
		o.decode(b, &o.budgets[len(o.budgets)-1])
	case "networking.k8s.io/v1 NetworkPolicy":
		o.decode(b, new(networking.NetworkPolicy))
	case "apps/v1 Deployment":
		var d apps.Deployment
		o.decode(b, &d)
		o.pod, o.replicas = &d.Spec.Template, *d.Spec.Replicas
		if n := d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue(); n != 1 {
			o.t.Errorf("maxUnavailable is %d", n)
		}
		o.selects(name, d.Spec.Selector.MatchLabels)
	case "apps/v1 StatefulSet":
		var s apps.StatefulSet
		o.decode(b, &s)
		o.pod, o.replicas = &s.Spec.Template, *s.Spec.Replicas
		if !slices.ContainsFunc(o.services, func(x core.Service) bool {
			return x.Name == s.Spec.ServiceName && x.Spec.ClusterIP == core.ClusterIPNone
		}) {
			o.t.Errorf("there is no headless service %s", s.Spec.ServiceName)
		}
		o.selects(name, s.Spec.Selector.MatchLabels)
	default:
		o.t.Errorf("%s: no type for %+v", name, kind)
	}
}

func (o *objects) selects(name string, labels map[string]string) {
	o.t.Helper()
	if len(labels) == 0 || !maps.Equal(labels, o.pod.Labels) {
		o.t.Errorf("%s selects %v, but its pods are %v", name, labels, o.pod.Labels)
	}
}

func (o *objects) decode(b []byte, to any) {
	o.t.Helper()
	if err := strict.UnmarshalStrict(b, to); err != nil {
		o.t.Errorf("%T: %v", to, err)
	}
}

func (o *objects) file(name string) []byte {
	o.t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		o.t.Fatal(err)
	}
	return b
}

// checkPod checks what the documents promise of a pod, and that its configuration is one.
func checkPod(t *testing.T, all *objects) {
	t.Helper()
	for _, b := range all.budgets {
		if b.Spec.MaxUnavailable.IntValue() != 1 || !maps.Equal(b.Spec.Selector.MatchLabels, all.pod.Labels) {
			t.Errorf("the budget: %+v", b.Spec)
		}
	}
	if len(all.pod.Spec.Containers) != 1 || all.replicas != 3 || *all.pod.Spec.TerminationGracePeriodSeconds != 660 {
		t.Fatalf("%d replicas of %+v", all.replicas, all.pod.Spec)
	}
	c := all.pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, s := range all.services {
		for _, p := range s.Spec.Ports {
			if !maps.Equal(s.Spec.Selector, all.pod.Labels) || ports[p.TargetPort.String()] != 7300 {
				t.Errorf("the service %s doesn't lead to clients' port: %+v", s.Name, s.Spec)
			}
		}
	}
	for path, probe := range map[string]*core.Probe{"/readyz": c.ReadinessProbe, "/healthz": c.LivenessProbe} {
		if get := probe.HTTPGet; get.Path != path || ports[get.Port.String()] != 7300 || get.HTTPHeaders[0] != (core.HTTPHeader{Name: "Host", Value: "localhost"}) {
			t.Errorf("the probe %s: %+v", path, probe)
		}
	}
	env := map[string]string{"POD_NAME": "dragoman-6b8f7c9d9d-abcde", "POD_IP": "10.1.2.3"}
	for _, e := range c.Env {
		if _, ok := env[e.Name]; !ok {
			t.Errorf("what is %s?", e.Name)
		}
	}
	for _, from := range c.EnvFrom {
		i := slices.IndexFunc(all.secrets, func(s core.Secret) bool { return s.Name == from.SecretRef.Name })
		if i < 0 {
			t.Fatalf("there is no secret %s", from.SecretRef.Name)
		}
		maps.Copy(env, all.secrets[i].StringData)
	}
	mounted := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounted[m.Name] = m.MountPath
	}
	for _, v := range all.pod.Spec.Volumes {
		if mounted[v.Name] == "" {
			t.Errorf("the volume %s isn't mounted", v.Name)
		}
		if v.ConfigMap == nil {
			continue
		}
		for _, f := range all.configs[v.ConfigMap.Name] {
			if !slices.Contains(c.Args, filepath.Join(mounted[v.Name], f)) {
				t.Errorf("%v doesn't read %s", c.Args, f)
			}
			text := all.file(filepath.Join(manifests, "base", f))
			s, problems := config.Parse(f, text, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
			if s == nil || len(problems) > 0 {
				t.Errorf("%s: %v", f, problems)
				continue
			}
			if s.Cluster.Advertise != "10.1.2.3:7301" || ports["replicas"] != 7301 || s.Listen != "0.0.0.0:7300" || !strings.HasPrefix(s.Database, "postgres://") {
				t.Errorf("%s: %+v", f, s.Cluster)
			}
		}
	}
}

// TestTC36Envoy checks the form of Envoy's configuration. Debian has no Envoy, and its types are a large module.
func TestTC36Envoy(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "examples", "cluster", "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type socket struct {
		Address struct {
			Socket struct {
				Address string `json:"address"`
				Port    int    `json:"port_value"`
			} `json:"socket_address"`
		} `json:"address"`
	}
	var x struct {
		Static struct {
			Listeners []struct {
				Name string `json:"name"`
				socket
				Chains []struct {
					Filters []struct {
						Name   string `json:"name"`
						Config struct {
							Type   string `json:"@type"`
							Prefix string `json:"stat_prefix"`
							Idle   string `json:"stream_idle_timeout"`
							Remote bool   `json:"use_remote_address"`
							Routes struct {
								Hosts []struct {
									Name    string   `json:"name"`
									Domains []string `json:"domains"`
									Routes  []struct {
										Match  map[string]any `json:"match"`
										Direct map[string]int `json:"direct_response"`
										Route  *struct {
											Cluster string         `json:"cluster"`
											Timeout string         `json:"timeout"`
											Retry   map[string]any `json:"retry_policy"`
										} `json:"route"`
									} `json:"routes"`
								} `json:"virtual_hosts"`
							} `json:"route_config"`
							Filters []map[string]any `json:"http_filters"`
						} `json:"typed_config"`
					} `json:"filters"`
				} `json:"filter_chains"`
			} `json:"listeners"`
			Clusters []struct {
				Name     string           `json:"name"`
				Type     string           `json:"type"`
				Connect  string           `json:"connect_timeout"`
				Policy   string           `json:"lb_policy"`
				Protocol map[string]any   `json:"typed_extension_protocol_options"`
				Checks   []map[string]any `json:"health_checks"`
				Load     struct {
					Name      string `json:"cluster_name"`
					Endpoints []struct {
						Each []struct {
							Endpoint socket `json:"endpoint"`
						} `json:"lb_endpoints"`
					} `json:"endpoints"`
				} `json:"load_assignment"`
			} `json:"clusters"`
		} `json:"static_resources"`
	}
	if err := strict.UnmarshalStrict(b, &x); err != nil {
		t.Fatal(err)
	}
	if len(x.Static.Listeners) != 1 || len(x.Static.Clusters) != 1 {
		t.Fatalf("%+v", x)
	}
	cluster := x.Static.Clusters[0]
	var at []string
	for _, e := range cluster.Load.Endpoints {
		for _, one := range e.Each {
			at = append(at, fmt.Sprint(one.Endpoint.Address.Socket.Address, ":", one.Endpoint.Address.Socket.Port))
		}
	}
	if want := []string{"127.0.0.1:7311", "127.0.0.1:7312", "127.0.0.1:7313"}; !slices.Equal(at, want) || cluster.Load.Name != cluster.Name || cluster.Policy != "ROUND_ROBIN" {
		t.Errorf("the cluster: %+v", cluster)
	}
	routes := x.Static.Listeners[0].Chains[0].Filters[0].Config.Routes.Hosts[0].Routes
	last := routes[len(routes)-1].Route
	if last == nil || last.Cluster != cluster.Name || last.Timeout != "0s" || last.Retry["retry_on"] != "connect-failure" {
		t.Errorf("the route: %+v", last)
	}
}
