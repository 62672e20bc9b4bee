package scenario

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/server"
)

// severalWriters is the variant in which the instances are not told that there is one writer.
const severalWriters = "several-writers"

// A galera is the Galera cluster, with a database of its own for the lab's code. Nodes have the numbers 1 to 3.
type galera struct {
	b        *lab.Testbed
	database string
	pools    map[string]*sql.DB // by address and name
}

// newGalera makes the database, with the table barrier of hold.
func newGalera(b *lab.Testbed) *galera {
	db := b.DB(lab.Node(1))
	g := &galera{b: b, database: databaseOf(b, db), pools: make(map[string]*sql.DB)}
	g.run(db, "CREATE TABLE barrier (id INT AUTO_INCREMENT PRIMARY KEY)")
	g.applied(1, 2, 3)
	return g
}

func (g *galera) run(db *sql.DB, statement string) {
	_, err := db.ExecContext(g.b.Ctx, statement)
	g.b.Must(statement, err)
}

func (g *galera) node(i int) *server.Server { return g.b.Server(lab.Node(i)) }

// at returns a pool of connections to the database on a node. The parameters are the driver's.
func (g *galera) at(i int, parameters ...string) *sql.DB {
	parameters = append(parameters, "interpolateParams=true", "multiStatements=true")
	return g.pool(i, g.database+"?"+strings.Join(parameters, "&"))
}

func (g *galera) pool(i int, name string) *sql.DB {
	key := g.node(i).Addr + "/" + name
	if g.pools[key] == nil {
		g.pools[key] = g.b.OpenDB(g.node(i).Addr, name)
	}
	return g.pools[key]
}

// session opens a session of a customer at a node.
func (g *galera) session(i int, who string, parameters ...string) *session {
	s := newSession(g.b, g.at(i, parameters...), who)
	s.on = g.node(i).Name
	return s
}

// syncWait makes a read wait until the node has applied all changes that were committed before, on any node.
const syncWait = "wsrep_sync_wait=1"

// replicated waits until the nodes that sell have applied all changes.
func (g *galera) replicated() { g.applied(1, 2) }

// applied waits until nodes have applied all changes.
func (g *galera) applied(nodes ...int) {
	for _, i := range nodes {
		g.number(g.pool(i, "?"+syncWait), "SELECT 1") // without the database, which may be among the changes
	}
}

func (g *galera) number(db *sql.DB, query string, args ...any) (n int64) {
	g.b.Must(query, db.QueryRowContext(g.b.Ctx, query, args...).Scan(&n))
	return n
}

// hold keeps a node from applying the changes of the others, which commit them all the same. Its own clients read and
// write. It needs no load and no clock: a table that the node has locked is changed on node 1, and the node applies
// changes in order. FLUSH TABLES is one of the few statements whose lock Galera waits for.
func (g *galera) hold(i int) (release func()) {
	g.replicated()
	operator := g.session(i, "operator")
	b, from := g.b, time.Now()
	operator.do("FLUSH TABLES barrier WITH READ LOCK")
	g.run(g.at(1), "INSERT INTO barrier VALUES ()")
	release = sync.OnceFunc(func() {
		operator.do("UNLOCK TABLES")
		b.Interval(g.node(i).Name, lab.Fault, "", from, "node-applies-nothing", "node", g.node(i).Name,
			"for", time.Since(from))
	})
	return release
}

// runs waits until a statement that begins like that runs on a node.
func (g *galera) runs(i int, statement string) {
	db := g.at(i)
	g.b.Eventually(statement+" runs on "+g.node(i).Name, func() bool {
		return g.number(db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE ?", statement+"%") > 0
	})
}

// apps returns an instance at node 1 and one at node 2. Unless the case's variant is severalWriters, they sell.
func (g *galera) apps() (first, second *lab.App) {
	// With one segment no sale begins with a move of units, which would wait for a node that is held.
	env := []string{"STOCK_LOCK_SEGMENTS=1", fmt.Sprintf("STOCK_MYSQL_SINGLE_WRITER=%t",
		g.b.Case.Variant != severalWriters)}
	at := func(addr string) *lab.App {
		g.replicated() // one instance makes the schema
		return g.b.Apps(1, append(slices.Clone(env), "STOCK_MYSQL_DSN=root@tcp("+addr+")/stock")...)[0]
	}
	return at(g.node(1).Addr), at(g.node(2).Addr)
}

// A clusterShop is a naiveShop on every node.
type clusterShop struct {
	*galera
	books naiveShop
}

// newClusterShop puts one unit in stock.
func newClusterShop(b *lab.Testbed) *clusterShop {
	g := newGalera(b)
	for _, statement := range []string{
		"CREATE TABLE " + stockTable, "CREATE TABLE " + ordersTable, "INSERT INTO stock VALUES ('sku', 1)",
	} {
		g.run(g.at(1), statement)
	}
	g.replicated()
	return &clusterShop{g, naiveShop{b, g.at(1, syncWait), g.node(1).Name, 1}}
}

// sale opens a session of a customer at a node.
func (s *clusterShop) sale(i int, who string, parameters ...string) *naiveSale {
	return &naiveSale{session: s.session(i, who, parameters...), sku: "sku"}
}

// verdict compares the orders with the stock that is left, when all nodes have applied everything. told is how many
// sales the customers were told of.
func (s *clusterShop) verdict(told int64) lab.Outcome {
	seen := s.books.verdict()
	s.b.Evidence(lab.Answer, told, "told-of-sales", "told", told)
	if told > 1-s.number(s.books.db, "SELECT quantity FROM stock") {
		return lab.Oversells
	}
	return seen
}
