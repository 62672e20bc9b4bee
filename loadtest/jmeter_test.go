package loadtest_test

import (
	"encoding/xml"
	"os"
	"slices"
	"strings"
	"testing"
)

// A node is an element of a JMeter plan.
type node struct {
	XMLName xml.Name
	Name    string `xml:"name,attr"`
	Class   string `xml:"testclass,attr"`
	Title   string `xml:"testname,attr"`
	Text    string `xml:",chardata"`
	Nodes   []node `xml:",any"`
}

func (n *node) walk(each func(*node)) {
	each(n)
	for i := range n.Nodes {
		n.Nodes[i].walk(each)
	}
}

// property returns the text of the property called name below n.
func (n *node) property(name string) (text string) {
	n.walk(func(at *node) {
		if at.Name == name && text == "" {
			text = strings.TrimSpace(at.Text)
		}
	})
	return text
}

// No test runs the plan: it is for JMeter 5, and Debian's 2.13 refuses every plan under the xstream that comes with it.
// So this tests its form: the elements that JMeter reads, in their places, with a default for every property.
func TestJMeterPlan(t *testing.T) {
	text, err := os.ReadFile("jmeter/deduct_stock.jmx")
	if err != nil {
		t.Fatal(err)
	}
	var plan node
	if err := xml.Unmarshal(text, &plan); err != nil {
		t.Fatal(err)
	}
	if plan.XMLName.Local != "jmeterTestPlan" || len(plan.Nodes) != 1 {
		t.Fatalf("%s with %d elements", plan.XMLName.Local, len(plan.Nodes))
	}
	byClass := make(map[string][]*node)
	plan.walk(func(n *node) {
		if n.XMLName.Local == "hashTree" {
			// In a tree, every element precedes the tree of its children.
			for i, at := range n.Nodes {
				if tree := at.XMLName.Local == "hashTree"; tree != (i%2 == 1) || !tree && i == len(n.Nodes)-1 {
					t.Errorf("%s %q is not followed by its tree", at.XMLName.Local, at.Title)
				}
			}
		}
		if n.Class != "" && n.Class != n.XMLName.Local && n.XMLName.Local != "elementProp" {
			t.Errorf("%s is of class %s", n.XMLName.Local, n.Class)
		}
		byClass[n.Class] = append(byClass[n.Class], n)
	})
	groups := byClass["ThreadGroup"]
	if len(groups) != 2 || byClass["TestPlan"][0].property("TestPlan.serialize_threadgroups") != "true" {
		t.Fatalf("%d thread groups", len(groups))
	}
	for i, want := range [][2]string{
		{"${__P(one.threads,1)}", "${__P(one.loops,30)}"},
		{"${__P(all.threads,30)}", "${__P(all.loops,1)}"},
	} {
		got := [2]string{groups[i].property("ThreadGroup.num_threads"), groups[i].property("LoopController.loops")}
		if got != want {
			t.Errorf("%s: %v, want %v", groups[i].Title, got, want)
		}
	}
	if n := len(byClass["SyncTimer"]); n != 1 {
		t.Errorf("%d timers that let all start together", n)
	}
	for class, properties := range map[string]map[string]string{
		"ConfigTestElement": {"HTTPSampler.domain": "${__P(host,localhost)}", "HTTPSampler.port": "${__P(port,8080)}"},
		"HTTPSamplerProxy": {
			"HTTPSampler.method": "POST",
			"HTTPSampler.path":   "${__P(endpoint,/deduct_stock)}?sku=${__P(sku,stock)}&quantity=${__P(quantity,1)}",
		},
		"ResponseAssertion": {"answers": "200|409|503", "Assertion.assume_success": "true"},
		"ResultCollector":   {"filename": "${__P(jtl,deduct_stock.jtl)}"},
	} {
		for name, want := range properties {
			if n := len(byClass[class]); n == 0 || byClass[class][0].property(name) != want {
				t.Errorf("%d x %s, %s is not %q", n, class, name, want)
			}
		}
	}
	for _, meaning := range []string{"'200': 'accepted'", "'409': 'sold out'", "'503': 'busy'"} {
		counts := func(n *node) bool { return strings.Contains(n.property("script"), meaning) }
		if !slices.ContainsFunc(byClass["JSR223PostProcessor"], counts) {
			t.Errorf("nothing counts %s", meaning)
		}
	}
}
