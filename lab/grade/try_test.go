package grade_test
import ("testing";"os";"strings";"time";"fmt";"example.com/stock/lab/grade";"example.com/stock/internal/stack")
func TestTry(t *testing.T){
 o := grade.Options{Command: strings.Fields(os.Getenv("LOCK")), Waiters: 10, Lease: time.Second, Wait: 3*time.Second, Grace: 2*time.Second, Servers: []stack.Kind{stack.Redis}}
 if v := os.Getenv("ONLY"); v != "" { o.Only = strings.Split(v, ",") }
 if v := os.Getenv("SERVERS"); v != "" { o.Servers=nil; for _,k := range strings.Split(v, ",") {o.Servers=append(o.Servers, stack.Kind(k))} }
 o.Done = func(r grade.Result){ fmt.Printf("%-24s %-12s %6.0f ms  %s\n", r.Scenario, r.Grade, r.TookMS, r.Why) }
 r, err := grade.Run(t.Context(), o); fmt.Println(r.Worst(), err)
}
