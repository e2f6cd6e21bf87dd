// Replaces the chart library if that is not installed: in place of each chart, a text says what to install.
const UNDRAWN = { addEventListener: () => null, data: () => UNDRAWN, resize: () => UNDRAWN, runAsync: async () => UNDRAWN };
window.vegaEmbed = async (place) => {
  place.textContent = "Charts need the extra [draw]: pip install 'straggler-fleet[draw]', then write the page again.";
  return { view: UNDRAWN };
};
