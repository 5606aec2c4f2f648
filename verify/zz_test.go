package verify
import ("testing";"tokitai/op/softmax";"tokitai/num";"tokitai/engine")
func TestZZ(t *testing.T){
 d:=softmax.ForwardDefinition
 for _, dt := range num.FloatDTypes[:2] {
 tg:=&Target{Operation:softmax.Operations[0],Definition:d,Lowering:engine.Lowerings("cpu",d)[0],DType:dt}
 o:=&Options{Seed:1}
 for _, name := range []string{"normal/R=2,C=1024","normal/R=64,C=1024","normal/R=640,C=1024","normal/R=2,C=1009","wide/R=64,C=1024"} {
 for seed := range uint64(3) {
 o.Seed=seed
 b,_:=tg.newBench(o,0)
 c,err:=tg.parseCase(name); if err!=nil {t.Log(err);continue}
 l:=tg.load(c,o.Seed)
 out,_:=b.run(l,o.deadline(),0)
 j,_:=tg.judge(l,out,manner{withTruth:true})
 t.Logf("%s %s seed %d t=%v mean=%v n=%d",dt,name,seed,j.Bias.t(),j.Bias.Sum/float64(j.Bias.N),j.Bias.N)
 b.close()
 }}}
}
