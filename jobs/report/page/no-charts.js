// In the place of the chart library where it is not installed: each chart says what it needs.
const UNDRAWN = { addEventListener: () => null, data: () => UNDRAWN, resize: () => UNDRAWN, runAsync: async () => UNDRAWN };
window.vegaEmbed = async (place) => {
  place.textContent = "Charts need the extra [draw]: pip install 'straggler-fleet[draw]', then write the page again.";
  return { view: UNDRAWN };
};
