package loadtest_test

import (
	"encoding/xml"
	"os"
	"testing"
)

// A node is an element of a JMeter plan.
type node struct {
	XMLName xml.Name
	Class   string `xml:"testclass,attr"`
	Title   string `xml:"testname,attr"`
	Nodes   []node `xml:",any"`
}

func (n *node) walk(each func(*node)) {
	each(n)
	for i := range n.Nodes {
		n.Nodes[i].walk(each)
	}
}

// No test runs the plan: it is for JMeter 5, and Debian's 2.13 refuses every plan under the xstream that comes with it.
// So this tests its form: the elements that JMeter reads, in their places.
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
	count := make(map[string]int)
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
		count[n.Class]++
	})
	// One user after the other, and then all at once.
	if count["ThreadGroup"] != 2 || count["SyncTimer"] != 1 {
		t.Errorf("%d groups of users, and %d timers that let all start together", count["ThreadGroup"],
			count["SyncTimer"])
	}
}
